#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets into tests/fuzz/corpus/<target>/seed_*: small valid and nearly valid inputs.

Standard library only. Files that a fuzzer found are not touched.
"""
import json
import pathlib
import struct

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


if __name__ == "__main__":
    safetensors()
    config()
