#!/usr/bin/env python3
"""Loads a checkpoint into numpy arrays and checks every hash on the way: needs `pip install h5py numpy xxhash`.

  examples/read_checkpoint.py RUN_DIR/checkpoints/step-0000000123.t1.g1

Written from docs/checkpoint-format.md alone, as a start for readers in other languages. As a module:
load(directory) returns (manifest, {name: array}); bfloat16 tensors come as uint16, for numpy has no such type.
"""
import json
import pathlib
import re
import struct
import sys

import h5py
import numpy as np
import xxhash

CHUNK_BYTES = 1 << 20
DTYPES = {"float32": "<f4", "float64": "<f8", "int64": "<i8", "int32": "<i4", "uint8": "u1", "bfloat16": "<u2"}


def read_manifest(directory):
    data = (directory / "manifest.json").read_bytes()
    tail = re.fullmatch(rb'  "checksum": "([0-9a-f]{32})"\n}\n', data[-51:])
    if not tail or xxhash.xxh3_128_hexdigest(data[:-51]) != tail[1].decode():
        raise ValueError("the manifest is damaged")
    manifest = json.loads(data)
    if (manifest["format"], manifest["version"]) != ("rekindle-checkpoint", 2):
        raise ValueError("not a checkpoint of version 2")
    return manifest


def chunks_of(tensor):
    """(first row, end row) of each chunk."""
    shape, item = tensor["shape"], np.dtype(DTYPES[tensor["dtype"]]).itemsize
    rows, row_bytes = (shape[0] if shape else 1), item * int(np.prod(shape[1:], dtype=np.int64))
    step = max(1, CHUNK_BYTES // max(1, row_bytes))
    return [(first, min(first + step, rows)) for first in range(0, rows if row_bytes else 0, step)]


def read_rows(path, file, entry, dtype):
    if dtype == "bfloat16":  # h5py would make floats of them
        return np.fromfile(path, DTYPES[dtype], entry["bytes"] // 2, offset=entry["offset"])
    return np.asarray(file[entry["name"]][()], DTYPES[dtype])


def state_digest(manifest):
    digest = xxhash.xxh3_128(struct.pack("<Q", manifest["step"]))
    for tensor in manifest["tensors"]:
        for text in (tensor["name"].encode(), tensor["dtype"].encode()):
            digest.update(struct.pack("<Q", len(text)) + text)
        shape = tensor["shape"]
        digest.update(struct.pack(f"<Q{len(shape)}q", len(shape), *shape))
        for chunk in tensor["chunks"]:
            digest.update(bytes.fromhex(chunk))
    return digest.hexdigest()


def load(directory):
    directory = pathlib.Path(directory)
    manifest = read_manifest(directory)
    if state_digest(manifest) != manifest["digest"]:
        raise ValueError("the state digest is not that of the chunks")
    tensors = {tensor["name"]: tensor for tensor in manifest["tensors"]}
    state = {name: np.empty(tensor["shape"], DTYPES[tensor["dtype"]]) for name, tensor in tensors.items()}
    for shard in manifest["shards"]:
        path = directory / shard["file"]
        if path.stat().st_size != shard["bytes"]:
            raise ValueError(f"{path.name} has another size")
        with h5py.File(path, "r") as file:
            for entry in shard["datasets"]:
                array, first = state[entry["name"]], entry["first_row"]
                rows = read_rows(path, file, entry, tensors[entry["name"]]["dtype"])
                part = array[first : first + entry["rows"]] if array.shape else array
                part[...] = rows.reshape(part.shape)
    for name, tensor in tensors.items():
        for (first, end), expected in zip(chunks_of(tensor), tensor["chunks"], strict=True):
            rows = state[name][first:end] if tensor["shape"] else state[name]
            if xxhash.xxh3_128_hexdigest(rows.tobytes()) != expected:
                raise ValueError(f"rows {first} to {end - 1} of {name} are damaged")
    return manifest, state


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    loaded, arrays = load(sys.argv[1])
    for name, array in arrays.items():
        print(f"{name}  {array.dtype}  {list(array.shape)}")
    print(f"ok: step {loaded['step']}, {len(arrays)} tensors, digest {loaded['digest']}")
