#!/usr/bin/env python3
"""Reads a checkpoint with h5py and xxhash only, from docs/checkpoint-format.md: needs `pip install h5py numpy xxhash`.

check_shard.py SHARD.h5         prints the names, shapes and rows in one shard
check_shard.py CHECKPOINT_DIR   checks every shard, the manifest, all checksums, the state digest and whole.h5
"""
import json
import pathlib
import re
import struct
import sys

import h5py
import numpy as np
import xxhash

BLOCK = 4 << 20
ITEM_BYTES = {"float32": 4, "float64": 8, "int64": 8, "int32": 4, "uint8": 1, "bfloat16": 2}


def show(path):
    """Prints a shard and returns {name: (first row, rows, global shape, file offset, values)}."""
    found = {}
    with h5py.File(path, "r") as file:
        print(f"{path.name}: shard {file.attrs['shard']} of {file.attrs['shards']}, step {file.attrs['step']}")
        assert file.attrs["rekindle_format"] == 1
        for name, dataset in file.items():
            shape = tuple(int(n) for n in dataset.attrs["global_shape"])
            first = int(dataset.attrs["first_row"])
            rows = dataset.shape[0] if shape else 1
            assert dataset.shape[1:] == shape[1:], name
            print(f"  {name}  {dataset.dtype}  {list(dataset.shape)}  rows {first} to {first + rows - 1} of {list(shape)}")
            found[name] = (first, rows, shape, dataset.id.get_offset(), dataset[()])
    return found


def read_manifest(directory):
    data = (directory / "manifest.json").read_bytes()
    tail = re.fullmatch(rb'  "checksum": "([0-9a-f]{32})"\n}\n', data[-51:])
    assert tail, "the manifest does not end in its checksum"
    assert xxhash.xxh3_128_hexdigest(data[:-51]) == tail[1].decode(), "the manifest's checksum does not match"
    manifest = json.loads(data)
    assert (manifest["format"], manifest["version"], manifest["block_bytes"]) == ("rekindle-checkpoint", 1, BLOCK)
    return manifest


def row_bytes(tensor):
    return int(np.prod(tensor["shape"][1:], dtype=np.int64)) * ITEM_BYTES[tensor["dtype"]]


def check_whole(directory, tensors, state):
    """The virtual file shows the same bytes; returns in how many datasets."""
    with h5py.File(directory / "whole.h5", "r") as file:
        assert set(file) == set(tensors)
        for name, dataset in file.items():
            assert list(dataset.shape) == tensors[name]["shape"], name
            if tensors[name]["dtype"] != "bfloat16":
                assert np.asarray(dataset[()]).tobytes() == state[name], name
        return len(file)


def check_checkpoint(directory):
    manifest = read_manifest(directory)
    tensors = {tensor["name"]: tensor for tensor in manifest["tensors"]}
    rows = {name: tensor["shape"][0] if tensor["shape"] else 1 for name, tensor in tensors.items()}
    state = {name: bytearray(rows[name] * row_bytes(tensor)) for name, tensor in tensors.items()}
    covered = dict.fromkeys(tensors, 0)
    for shard in manifest["shards"]:
        data = (directory / shard["file"]).read_bytes()
        assert len(data) == shard["bytes"], shard["file"]
        blocks = [xxhash.xxh3_64_hexdigest(data[i : i + BLOCK]) for i in range(0, len(data), BLOCK)]
        assert blocks == shard["blocks"], f"{shard['file']}: a block's checksum does not match"
        seen = show(directory / shard["file"])
        assert set(seen) == {dataset["name"] for dataset in shard["datasets"]}
        for dataset in shard["datasets"]:
            tensor = tensors[dataset["name"]]
            first, count, shape, offset, values = seen[dataset["name"]]
            assert (first, count, offset) == (dataset["first_row"], dataset["rows"], dataset["offset"])
            assert list(shape) == tensor["shape"]
            raw = data[offset : offset + dataset["bytes"]]
            if tensor["dtype"] != "bfloat16":  # numpy has no such type
                assert str(values.dtype) == tensor["dtype"] and np.asarray(values).tobytes() == raw
            begin = first * row_bytes(tensor)
            state[dataset["name"]][begin : begin + len(raw)] = raw
            covered[dataset["name"]] += count
    assert all(covered[name] == rows[name] or not state[name] for name in tensors), "rows are missing"
    digest = xxhash.xxh3_128(struct.pack("<Q", manifest["step"]))
    for name, tensor in tensors.items():
        for text in (name.encode(), tensor["dtype"].encode()):
            digest.update(struct.pack("<Q", len(text)) + text)
        shape = tensor["shape"]
        digest.update(struct.pack(f"<Q{len(shape)}q", len(shape), *shape) + state[name])
    assert digest.hexdigest() == manifest["digest"], "the state digest does not match"
    seen = check_whole(directory, tensors, state) if (directory / "whole.h5").exists() else "no"
    print(f"ok: step {manifest['step']}, {len(tensors)} tensors, digest {manifest['digest']}, {seen} in whole.h5")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    where = pathlib.Path(sys.argv[1])
    check_checkpoint(where) if where.is_dir() else show(where)
