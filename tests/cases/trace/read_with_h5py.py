"""Reads a trace with h5py alone and prints what it holds as one JSON document. Started by the case strings.h5py_reads_everything."""
import json
import sys

import h5py
import numpy


def plain(value):
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, numpy.ndarray):
        return value.tolist()
    if isinstance(value, numpy.generic):
        return value.item()
    return value


def main(path):
    out = {"datasets": {}, "layers": {}}
    with h5py.File(path, "r") as f:
        out["root"] = {k: plain(v) for k, v in f.attrs.items()}
        out["root_types"] = {k: str(f.attrs[k].dtype) for k in ("format_version", "status", "tokens_done")}
        run = f["runs/0000"]
        out["run"] = {k: plain(v) for k, v in run.attrs.items()}
        out["config"] = f["model/config"].asstr()[()]
        out["model"] = {k: d.asstr()[()] for k, d in f["model"].items()}
        out["text"] = run["prompt/text"].asstr()[()]
        out["answer"] = run["prompt/answer"].asstr()[()]
        out["exact"] = [int(run["prompt/answer"].attrs["exact"]), str(run["prompt/answer"].attrs["exact"].dtype)]
        spans = run["prompt/spans"]
        out["spans"] = [[n.decode("utf-8"), int(b), int(e)] for n, b, e in spans[:]]
        out["span_type"] = [str(spans.dtype["name"]), h5py.check_string_dtype(spans.dtype["name"]).encoding,
                            spans.maxshape == (None,)]
        for i, layer in run["layers"].items():
            out["layers"][i] = {k: plain(v) for k, v in layer.attrs.items()}
        offsets, raw = run["tokens/byte_offsets"][:], run["tokens/bytes"][:].tobytes()
        out["token_bytes"] = [raw[offsets[t]:offsets[t + 1]].hex() for t in range(len(offsets) - 1)]
        out["output_text"] = run["output/text"][:].tobytes().decode(run["output/text"].attrs["encoding"])
        missing = []

        def visit(name, item):
            if not isinstance(item, h5py.Dataset):
                return
            if "description" not in item.attrs or "axes" not in item.attrs:
                missing.append(name)
            if item.dtype.kind in "iuf":
                values = item[()].astype(numpy.float64)
                out["datasets"][name] = {"type": str(item.dtype), "shape": list(item.shape), "axes": item.attrs["axes"],
                                         "filters": [bool(item.shuffle), item.compression, item.compression_opts],
                                         "sum": float(values.sum()), "last": float(values.flat[-1]) if values.size else None}

        f.visititems(visit)
        out["without_description"] = missing
    json.dump(out, sys.stdout)


main(sys.argv[1])
