"""Reads a result with h5py alone and prints what it holds as one JSON document. Started by the case result_file.h5py_reads_everything."""
import json
import sys

import h5py
import numpy


def plain(value):
    if isinstance(value, h5py.Empty):
        return []
    if isinstance(value, numpy.ndarray):
        return [plain(v) for v in value.tolist()]
    if isinstance(value, numpy.generic):
        return plain(value.item())
    return str(value) if isinstance(value, float) and not numpy.isfinite(value) else value


with h5py.File(sys.argv[1], "r") as f:
    out = {"root": {k: plain(v) for k, v in f.attrs.items()},
           "parameters": {k: plain(v) for k, v in f["parameters"].attrs.items()}, "datasets": {}}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            values = item[()]
            out["datasets"][name] = {"type": str(item.dtype), "shape": list(item.shape), "bytes": values.tobytes().hex()[:64],
                                     "attributes": {k: plain(v) for k, v in item.attrs.items()},
                                     "sum": plain(float(numpy.sum(values.astype(numpy.float64))))}

    f.visititems(visit)
json.dump(out, sys.stdout)
