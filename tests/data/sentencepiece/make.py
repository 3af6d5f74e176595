#!/usr/bin/env python3
"""Makes the SentencePiece models of this folder and what they should give, with spm_train, spm_encode and spm_decode (Debian
package sentencepiece, 0.1.97) and Python's standard library. Run from anywhere: make.py writes beside itself.

expected.json: per model a list of rows; legacy and not as in transformers' slow LlamaTokenizer. `spans` are bytes of the text, from
a second reckoning in this script (normalise by the rules, then lay the pieces along the result), not from the library."""
import json
import pathlib
import subprocess
import tempfile
import unicodedata

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE.parent / "shakespeare-excerpt.txt"
NO_PREFIX = b"\x1a\x02\x18\x00"  # normalizer_spec { add_dummy_prefix: false }, merged into the file's own
SPACE = "\u2581"
SPECIAL = ["<s>", "</s>", "<unk>"]

# A part of NFKC that fits into a small file; written as code points in hex.
RULES = {}
for c in list(range(0xFB00, 0xFB05)) + list(range(0xFF01, 0xFF5F)) + [0xA0, 0xB2, 0xB3, 0xBD, 0x2026, 0x2122, 0x3000, 0xFDFA, 0x2003]:
    RULES[chr(c)] = unicodedata.normalize("NFKC", chr(c))
for base in "aeiouAEIOU":
    for mark in "\u0300\u0301\u0302\u0308":
        if len(unicodedata.normalize("NFC", base + mark)) == 1:
            RULES[base + mark] = unicodedata.normalize("NFC", base + mark)
for c in "\t\r\u2028\u2029":
    RULES[c] = " "
RULES["\u200b"] = RULES["\ufeff"] = ""

TEXTS = [
    "", "a", "Hello world", " Hello", "Hello ", "  two  spaces   three ", " ", "   ", "\t", "tab\tsep", "The king's crown, my lord!",
    "12345 67", "1,000,000.50", "na\u00efve caf\u00e9", "e\u0301 a\u0300\u0301", "\ufb01ne o\ufb03ce", "\uff21\uff22\uff23\uff11", "x\u00b2 \u00bd \u2026\u2122",
    "\ufdfa", "a\ufdfab", "emoji \U0001f600 end", "\U0001f469\u200d\U0001f4bb", "\u65e5\u672c\u8a9e123", "\u0663\u0664\u0665\u0666", "a\u2029 b", "\u00a0nbsp\u00a0",
    "\u3000wide\u3000", "zero\u200bwidth", "\ufeffbom", "\u2581", "\u2581under", "a\u2581b \u2581", " \u2581", "\u2581 x", "<0x41>", "don\u2019t can'T", "<mask>", "x <sep>y<sep>",
    "<s>hello", "a<s> b</s>c", "<s><s>", " <s> ", "</s>", "say <unk> now", "<s", "s>", "<s>\u2581x", "\u2581<s>", "a</s>", "\r", "x\ry", "\u0001",
    "To be, or not to be, that is the question: Whether 'tis nobler in the mind to suffer",
]
# Any sequence of ids has a text.
DECODE = [[], [5], [1, 5, 2], [300, 301, 302], [299, 299, 299], [8, 8, 9], [450, 8, 8, 400], [263, 400, 410], [2, 2, 450, 1, 451]]


def run(tool, model, lines, *options):
    with tempfile.NamedTemporaryFile(suffix=".model") as f:
        f.write(model)
        f.flush()
        data = "".join(line + "\n" for line in lines).encode()
        out = subprocess.run([tool, "--model=" + f.name, "--minloglevel=2", *options], input=data, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, check=True).stdout
    rows = out.decode().split("\n")
    assert rows[-1] == "" and len(rows) == len(lines) + 1, (tool, lines, rows)
    return rows[:-1]


def encode(model, line):
    pieces = [p for p in run("spm_encode", model, [line], "--output_format=piece")[0].split(" ") if p]
    ids = [int(i) for i in run("spm_encode", model, [line], "--output_format=id")[0].split()]
    assert len(ids) == len(pieces), (line, ids, pieces)
    return pieces, ids


def decode(model, ids):
    return run("spm_decode", model, [" ".join(map(str, ids))], "--input_format=id")[0]


def split(text):
    """Stretches and special tokens: leftmost, longest."""
    parts, start, at = [], 0, 0
    while at < len(text):
        token = max((s for s in SPECIAL if text.startswith(s, at)), key=len, default=None)
        if token is None:
            at += 1
            continue
        if at > start:
            parts.append((start, at, None))
        parts.append((at, at + len(token), token))
        start = at = at + len(token)
    if start < len(text):
        parts.append((start, len(text), None))
    return parts


def normalise(text, kind, prefix):
    """[(character, begin, end)] with positions in `text`; what was put before stands at one place."""
    out, at = [], 0
    longest = max(map(len, RULES))
    while at < len(text):
        count = next((n for n in range(longest, 0, -1) if kind == "unigram" and text[at:at + n] in RULES and len(text[at:at + n]) == n), 0)
        new = RULES[text[at:at + count]] if count else text[at]
        for c in new:
            out.append((SPACE if c == " " else c, at, at + max(count, 1)))
        at += max(count, 1)
    if kind == "unigram":  # remove_extra_whitespaces: inner ones become one, those at the ends go
        while out and out[0][0] == SPACE and text[out[0][1]] != SPACE:
            out.pop(0)
        kept = []
        for item in out:
            if not (item[0] == SPACE and text[item[1]] != SPACE and kept and kept[-1][0] == SPACE and text[kept[-1][1]] != SPACE):
                kept.append(item)
        while kept and kept[-1][0] == SPACE:
            kept.pop()
        out = kept
    if prefix and out:
        out.insert(0, (SPACE, out[0][1] if kind == "bpe" or text[0] in " \u3000\u00a0\t\r" else 0, out[0][1]))
    # What normalisation drops inside the text goes with the character before.
    return [(c, b, max(e, out[i + 1][1]) if i + 1 < len(out) else e) for i, (c, b, e) in enumerate(out)]


def spans(pieces, characters, types, text):
    """Byte ranges of the pieces along the normalised text; None when the reckoning here does not follow the library."""
    byte = lambda i: len(text[:i].encode())
    result, at = [], 0
    i = 0
    while i < len(pieces):
        if types[i] == "byte":
            c = characters[at]
            raw = c[0].encode()
            same = text[c[1]:c[2]].encode() == raw
            for k, b in enumerate(raw):
                if pieces[i + k] != "<0x%02X>" % b:
                    return None
                result.append([byte(c[1]) + k, byte(c[1]) + k + 1] if same else [byte(c[1]), byte(c[2])])
            i, at = i + len(raw), at + 1
            continue
        part = characters[at:at + len(pieces[i])]
        if "".join(c[0] for c in part) != pieces[i]:
            return None
        result.append([byte(part[0][1]), byte(part[-1][2])])
        i, at = i + 1, at + len(pieces[i])
    return result if at == len(characters) else None


def row(model, kind, text, legacy):
    ids, pieces, ranges, exact = [], [], [], True
    byte = lambda i: len(text[:i].encode())
    bare = model + NO_PREFIX
    unknown = len(encode(bare, "<unk>")[0])
    changed = text if legacy else SPACE + text.replace(SPACE, " ") if text else ""
    shift = 0 if legacy else 1
    for begin, end, token in split(changed):
        if token:
            ids.append(SPECIAL_IDS[token])
            pieces.append(token)
            ranges.append([byte(begin - shift), byte(end - shift)])
            continue
        part = changed[begin:end]
        if legacy:
            new, new_ids = encode(model, part)
        elif part[0] in (SPACE, " "):
            new, new_ids = encode(bare, "<unk>" + part)
            new, new_ids = new[unknown:], new_ids[unknown:]
        else:
            new, new_ids = encode(bare, part)
        types = ["byte" if kind == "bpe" and p[:3] == "<0x" and SPECIAL_TYPES.get(i) == "byte" else "" for p, i in zip(new, new_ids)]
        here = spans(new, normalise(part, kind, legacy), types, part) if legacy else None
        if here is None:
            exact = False
        else:
            base = byte(begin)
            ranges += [[a + base, b + base] for a, b in here]
        ids += new_ids
        pieces += new
    if not legacy and len(pieces) > 1 and pieces[0] == SPACE and pieces[1] in SPECIAL:
        ids, pieces = ids[1:], pieces[1:]
    # Special tokens, the unknown one among them, are left out first; what is left is one text.
    words = [(p, i) for p, i in zip(pieces, ids) if i > 2]
    decoded = decode(model if legacy else bare, [i for p, i in words])
    if not legacy and words and words[0][0].startswith(SPACE):
        decoded = decoded[1:] if decoded.startswith(" ") else decoded
    result = {"text": text, "ids": ids, "pieces": pieces, "decoded": decoded}
    if legacy and exact:
        result["spans"] = ranges
    return result


def train(kind, *options):
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder) / "m"
        rules = pathlib.Path(folder) / "rules.tsv"
        rules.write_text("".join("%s\t%s\n" % (" ".join("%X" % ord(c) for c in a), " ".join("%X" % ord(c) for c in b))
                                 for a, b in sorted(RULES.items())))
        subprocess.run(["spm_train", "--input=" + str(CORPUS), "--model_prefix=" + str(prefix), "--model_type=" + kind, "--num_threads=1",
                        *[o.replace("RULES", str(rules)) for o in options]], check=True, stderr=subprocess.DEVNULL)
        return prefix.with_suffix(".model").read_bytes()


SPECIAL_IDS = {"<unk>": 0, "<s>": 1, "</s>": 2}
SPECIAL_TYPES = {i: "byte" for i in range(3, 259)}  # of the BPE model: spm_train puts the byte pieces behind the control pieces

if __name__ == "__main__":
    models = {
        "bpe": train("bpe", "--vocab_size=600", "--byte_fallback=true", "--normalization_rule_name=identity", "--split_digits=true",
                     "--remove_extra_whitespaces=false", "--allow_whitespace_only_pieces=true"),
        "unigram": train("unigram", "--vocab_size=500", "--normalization_rule_tsv=RULES", "--user_defined_symbols=<sep>",
                         "--control_symbols=<mask>"),
    }
    expected = {}
    for name, model in models.items():
        (HERE / name).mkdir(exist_ok=True)
        (HERE / name / "tokenizer.model").write_bytes(model)
        expected[name] = {
            "legacy": [row(model, name, t, True) for t in TEXTS],
            "new": [row(model, name, t, False) for t in TEXTS],
            "decode": [{"ids": ids, "decoded": decode(model, [i for i in ids if i > 2])} for ids in DECODE],
        }
    text = json.dumps(expected, ensure_ascii=False, indent=0, separators=(",", ":"))
    (HERE / "expected.json").write_text(text.replace(",\n\"", ", \"").replace("[\n", "[").replace("\n]", "]") + "\n")
