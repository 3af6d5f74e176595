#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets into tests/fuzz/corpus/<target>/seed_*: small valid and nearly valid inputs.

Standard library only. Files that a fuzzer found are not touched.
"""
import collections
import io
import json
import pathlib
import pickle
import struct
import sys
import types
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"


def put(target, name, data):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ("seed_" + name)).write_bytes(data.encode() if isinstance(data, str) else data)


def safetensors():
    bits = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "I16": 16, "U16": 16, "F16": 16,
            "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64}

    def file(tensors, metadata=None, extra=None):
        header, at = {}, 0
        if metadata is not None:
            header["__metadata__"] = metadata
        for name, dtype, shape in tensors:
            count = 1
            for n in shape:
                count *= n
            size = count * bits[dtype] // 8
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size], **(extra or {})}
            at += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text + bytes(i * 37 % 256 for i in range(at))

    put("safetensors", "all_dtypes", file([(f"t{i}", d, [2]) for i, d in enumerate(bits)]))
    put("safetensors", "shapes", file([("scalar", "F32", []), ("empty", "F16", [0, 5]), ("cube", "BF16", [2, 1, 3])]))
    put("safetensors", "metadata", file([("w", "F32", [2])], {"format": "pt", "note": "\u00e9\n\"x\""}))
    put("safetensors", "unknown_keys", file([("w", "U8", [3])], extra={"device": {"a": [1, {"b": None}]}}))
    put("safetensors", "nothing", file([]))
    put("safetensors", "escapes", struct.pack("<Q", 64) + rb'{"\u00e9\ud83d\ude00":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
        .ljust(64)[:64] + b"\x07")
    put("safetensors", "huge_shape", struct.pack("<Q", 96)
        + b'{"w":{"dtype":"F64","shape":[4294967296,4294967296,2],"data_offsets":[0,18446744073709551615]}}'.ljust(96))
    put("safetensors", "deep", struct.pack("<Q", 240) + (b'{"w":{"x":' + b"[" * 110 + b"]" * 110 + b"}}").ljust(240))
    put("safetensors", "pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    put("safetensors", "length", struct.pack("<Q", 2**63) + b"{}")


def config():
    for i, name in enumerate(["raven_fla_default", "raven_gb_gate", "raven_fla_hybrid_list", "raven_fla_gla_softmax_bias_t2r",
                              "raven_fla_rule_mlp", "raven_fla_tied"]):
        root = json.loads((GOLDEN / "models" / name / "config.json").read_text())
        put("config", name, " " * i + json.dumps(root, separators=(",", ":")))
    put("config", "misspelt", '{"model_type":"raven","hidden_size":32,"num_heads":4,"num_hidden_layers":2,"num_slots":null,'
        '"exapnd_k":1,"expand_v":1e0,"topk":3,"intermediate_size":48}')
    put("config", "nonfinite", '{"model_type":"raven","norm_eps":Infinity,"rope_theta":NaN,"expand_k":-Infinity,"topk":1e999}')
    put("config", "rope", '  {"model_type":"raven","use_rope":true,"rope_parameters":{"rope_theta":5e5,"rope_type":"default"},'
        '"rope_scaling":{"type":"linear","factor":2},"torch_dtype":"bfloat16","dtype":"float32","text_config":'
        '{"tie_word_embeddings":true},"attn":{"layers":[0],"num_heads":2,"window_size":null,"use_rope":false}}')
    put("config", "twice", '{"model_type":"raven","topk":1,"topk":2,"num_heads":true,"attn":[{"layers":[1,1]},{"layers":[-1]}]}')


def fake_torch():
    """Modules whose names are those that torch.save writes, so that Python's own pickler writes them."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for module, names in ((torch, ["FloatStorage", "HalfStorage", "BFloat16Storage", "LongStorage", "Size"]),
                          (utils, ["_rebuild_tensor_v2", "_rebuild_parameter"])):
        sys.modules[module.__name__] = module
        for name in names:
            def made(*args):
                return args
            made.__module__, made.__name__, made.__qualname__ = module.__name__, name, name
            setattr(module, name, made)
    return torch, utils


class Storage:
    def __init__(self, kind, key, elements):
        self.reference = ("storage", kind, key, "cpu", elements)


class Call:
    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.reference if isinstance(value, Storage) else None


def dumps(value, protocol=2):
    out = io.BytesIO()
    Pickler(out, protocol).dump(value)
    return out.getvalue()


def state_dict(torch, utils):
    hooks = collections.OrderedDict()
    first, second = Storage(torch.FloatStorage, "0", 12), Storage(torch.BFloat16Storage, "1", 4)
    tensor = Call(utils._rebuild_tensor_v2, first, 0, (3, 4), (4, 1), False, hooks)
    return collections.OrderedDict([
        ("w", tensor), ("tied", tensor), ("view", Call(utils._rebuild_tensor_v2, first, 2, (2, 3), (1, 4), False, hooks)),
        ("p", Call(utils._rebuild_parameter, Call(utils._rebuild_tensor_v2, second, 0, (4,), (1,), True, hooks), True, hooks))])


def torch_save(pkl, name="archive", compression=zipfile.ZIP_STORED, byteorder=True, extra=()):
    members = [(name + "/data.pkl", pkl)] + ([(name + "/byteorder", "little")] if byteorder else [])
    members += [(name + "/data/0", struct.pack("<12f", *range(12))), (name + "/data/1", struct.pack("<4H", 0x3F80, 0x4000, 0xBF80, 0)),
                (name + "/version", "3\n"), *extra]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for member, data in members:  # with a date of its own: the same bytes each time
            archive.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), data, compression)
    return out.getvalue()


def odd_views(torch, utils):
    """Views that leave their storage, overlap, have no elements or absurd numbers."""
    first = Storage(torch.FloatStorage, "0", 12)
    forms = {"outside": (10, (3,), (1,)), "negative": (0, (2,), (-1,)), "spread": (0, (4, 4), (0, 1)), "empty": (12, (0, 5), (5, 1)),
             "scalar": (5, (), ()), "huge": (2**62, (2**31, 2**31, 2**31), (1, 1, 1)), "ranks": (0, (2, 2), (1,))}
    return {name: Call(utils._rebuild_tensor_v2, first, offset, shape, strides, False, collections.OrderedDict())
            for name, (offset, shape, strides) in forms.items()}


def legacy(pkl):
    """The form before zip: magic number, protocol version, sizes, the pickle, storage keys, then each storage with its length."""
    head = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2)
    head += pickle.dumps({"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}, 2)
    return (head + pkl + pickle.dumps(["0", "1"], 2) + struct.pack("<q12f", 12, *range(12))
            + struct.pack("<q4H", 4, 0x3F80, 0x4000, 0xBF80, 0))


def torch_files():
    torch, utils = fake_torch()
    weights = state_dict(torch, utils)
    nested = {"epoch": 3, "model": weights, "optimizer": {"state": {0: {"step": 1.5}}, "param_groups": [{"lr": 1e-3}]},
              "note": "\u00e9", "big": 2**70, "flags": (True, None, b"x", 2**40, -1, {1, 2}), "args": types.SimpleNamespace(a=1)}
    for protocol in (2, 3, 4, 5):
        put("pickle", f"state_dict_{protocol}", dumps(weights, protocol))
    put("pickle", "nested", dumps(nested))
    put("pickle", "nested_4", dumps(nested, 4))
    put("pickle", "shared", dumps([[weights] * 3, [1.5] * 3, "x" * 300, list(range(300))]))
    circle = []
    circle.append(circle)
    put("pickle", "circle", dumps(circle))
    put("pickle", "system", b"\x80\x02cposix\nsystem\nX\x05\x00\x00\x00touch\x85R.")
    put("pickle", "deep", b"\x80\x02" + b"]" * 300 + b"a" * 299 + b".")
    put("pickle", "huge_long", b"\x80\x02\x8b\x00\xca\x9a\x3b.")
    put("pickle", "numpy", b"\x80\x02cnumpy\ndtype\nX\x02\x00\x00\x00f8K\x00K\x01\x87R(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb.")
    put("zip", "state_dict", torch_save(dumps(weights)))
    put("zip", "deflated", torch_save(dumps(nested), compression=zipfile.ZIP_DEFLATED))
    put("zip", "name", torch_save(dumps(nested), name="my model", byteorder=False))
    put("zip", "outside", torch_save(dumps(weights), extra=[("archive/../../x", "x"), ("archive/data/0", "twice")]))
    put("torch", "state_dict", torch_save(dumps(weights)))
    put("torch", "nested", torch_save(dumps(nested), name="checkpoint"))
    put("torch", "views", torch_save(dumps(odd_views(torch, utils))))
    put("torch", "legacy", legacy(dumps(weights)))
    put("torch", "legacy_nested", legacy(dumps(nested)))
    put("zip", "nothing", b"PK\x05\x06" + bytes(18))
    put("zip", "comment", torch_save(dumps(weights))[:-2] + b"\x04\x00note")


def tokenizer():
    byte_level = json.loads((GOLDEN / "tokenizers" / "byte_level" / "tokenizer.json").read_text())
    put("tokenizer", "byte_level", json.dumps(byte_level, separators=(",", ":")))
    small = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "\u0120": 5, "\u00c3": 6, "\u00a9": 7},
                       "merges": ["a b", ["ab", "c"]]},
             "added_tokens": [{"id": 8, "content": "<s>", "special": True, "normalized": False, "lstrip": False, "rstrip": True,
                               "single_word": False}],
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
             "decoder": {"type": "ByteLevel"}, "post_processor": None, "normalizer": None}
    def variant(**parts):
        return json.dumps({**small, **parts}, separators=(",", ":"))
    put("tokenizer", "small", variant())
    put("tokenizer", "text", variant() + "\0abc ab<s> a\u00e9")
    put("tokenizer", "gpt2", variant(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}))
    llama3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    put("tokenizer", "llama3", variant(
        pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": llama3}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        post_processor={"type": "Sequence", "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
            {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
             "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [8], "tokens": ["<s>"]}}}]}))
    put("tokenizer", "qwen2", variant(normalizer={"type": "NFC"}, pre_tokenizer={"type": "Split", "pattern": {"Regex": r"\p{N}| ?\p{L}+|\s+"},
                                                                                "behavior": "MergedWithNext", "invert": False}))
    llama2 = {"model": {"type": "BPE", "vocab": {"<unk>": 0, **{f"<0x{i:02X}>": i + 1 for i in range(256)}, "\u2581": 257, "a": 258, "b": 259,
                                                 "\u2581a": 260, "ab": 261}, "merges": ["\u2581 a", "a b"], "unk_token": "<unk>",
                        "fuse_unk": True, "byte_fallback": True},
              "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                                   {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
              "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                                             {"type": "ByteFallback"}, {"type": "Fuse"},
                                                             {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
              "added_tokens": [{"id": 0, "content": "<unk>", "special": True}]}
    put("tokenizer", "llama2", json.dumps(llama2, separators=(",", ":")))
    unigram = {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["\u2581", -2.5], ["a", -1.5], ["ab", -2.0], ["\u2581a", -1.0]]},
               "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True}]},
               "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
               "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
               "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True, "add_prefix_space": True}}
    put("tokenizer", "unigram", json.dumps(unigram, separators=(",", ":")))
    wordpiece = {"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                           "vocab": {"[UNK]": 0, "a": 1, "##b": 2}},
                 "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
                 "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}}
    put("tokenizer", "wordpiece", json.dumps(wordpiece, separators=(",", ":")))


def traces():
    """The first byte chooses the base trace; the rest are edits, which the fuzzer finds."""
    for i, name in enumerate(["complete", "plain"]):
        put("trace", name, bytes([i]))
    put("trace", "repair", bytes([14]))
    put("trace", "analysis", bytes([48]))
    for i, name in enumerate(["complete", "dead"]):
        put("trace_bytes", name, bytes([i]))
    put("trace_plain", "plain", bytes([1]))


if __name__ == "__main__":
    safetensors()
    config()
    torch_files()
    tokenizer()
    traces()
