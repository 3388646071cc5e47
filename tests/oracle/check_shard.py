#!/usr/bin/env python3
"""What h5py sees in a checkpoint must be what its manifest says: needs `pip install h5py numpy xxhash`.

check_shard.py SHARD.h5                           prints the names, shapes and rows in one shard
check_shard.py CHECKPOINT_DIR [--without-whole]   checks every shard and whole.h5 against the manifest, and all checksums;
                                                  with the option whole.h5 may be missing
"""
import pathlib
import sys

import h5py
import numpy as np
import xxhash

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
from read_checkpoint import load


def show(path):
    """Prints a shard and returns {name: (first row, rows, global shape, file offset)}."""
    found = {}
    with h5py.File(path, "r") as file:
        print(f"{path.name}: shard {file.attrs['shard']} of {file.attrs['shards']}, step {file.attrs['step']}")
        assert file.attrs["rekindle_format"] == 2
        for name, dataset in file.items():
            shape = [int(n) for n in dataset.attrs["global_shape"]]
            first = int(dataset.attrs["first_row"])
            rows = dataset.shape[0] if shape else 1
            assert list(dataset.shape[1:]) == shape[1:], name
            print(f"  {name}  {dataset.dtype}  {list(dataset.shape)}  rows {first} to {first + rows - 1} of {shape}")
            found[name] = (first, rows, shape, dataset.id.get_offset())
    return found


def check_whole(directory, state):
    """The virtual file shows the same bytes; returns in how many datasets."""
    with h5py.File(directory / "whole.h5", "r") as file:
        assert set(file) == set(state)
        for name, dataset in file.items():
            assert dataset.shape == state[name].shape, name
            if state[name].dtype != np.uint16:  # bfloat16
                assert np.asarray(dataset[()]).tobytes() == state[name].tobytes(), name
        return len(file)


def check_checkpoint(directory, without_whole):
    manifest, state = load(directory)
    shapes = {tensor["name"]: tensor["shape"] for tensor in manifest["tensors"]}
    for shard in manifest["shards"]:
        expected = {
            entry["name"]: (entry["first_row"], entry["rows"], shapes[entry["name"]], entry["offset"])
            for entry in shard["datasets"]
        }
        assert show(directory / shard["file"]) == expected, shard["file"]
        data, frame, begin = (directory / shard["file"]).read_bytes(), xxhash.xxh3_128(), 0
        for entry in shard["datasets"]:
            frame.update(data[begin : entry["offset"]])
            begin = entry["offset"] + entry["bytes"]
        frame.update(data[begin:])
        assert frame.hexdigest() == shard["frame"], f"{shard['file']}: the frame's checksum does not match"
    there = (directory / "whole.h5").exists()
    assert there or without_whole, "whole.h5 is missing"
    seen = check_whole(directory, state) if there else "no"
    print(f"ok: step {manifest['step']}, {len(state)} tensors, digest {manifest['digest']}, {seen} in whole.h5")


if __name__ == "__main__":
    option = sys.argv[2:]
    if len(sys.argv) < 2 or option not in ([], ["--without-whole"]):
        sys.exit(__doc__)
    where = pathlib.Path(sys.argv[1])
    check_checkpoint(where, without_whole=bool(option)) if where.is_dir() else show(where)
