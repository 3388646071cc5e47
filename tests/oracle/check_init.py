#!/usr/bin/env python3
"""Files that Python writes start a run: needs torch, torchvision, safetensors, h5py and numpy.

check_init.py REKINDLE DATA_DIR     the program, and a CIFAR-10 folder (rekindle make-data cifar10 DATA_DIR --samples 100)
"""
import pathlib
import subprocess
import sys
import tempfile

import h5py
import torch
from safetensors.torch import load_file, save_file
from torchvision.models import vgg11


def rekindle(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def run(program, directory, data, *more):
    return rekindle(program, "local", "--run-dir", directory, "--data", data, "--model", "vgg11", "--image-size", 64,
                    "--batch-size", 4, "--micro-batches", 4, "--steps", 1, "--lr", 0, "--weight-decay", 0, *more)


def main(program, data):
    torch.manual_seed(7)
    state = vgg11(num_classes=10).state_dict()
    state["features.0.bias"][:4] = torch.tensor([0.0, -0.0, 1e-40, -1e-45])
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        save_file(state, scratch / "in.safetensors")
        with h5py.File(scratch / "in.h5", "w") as file:
            for key, value in state.items():
                file[key] = value.numpy()
        with h5py.File(scratch / "packed.h5", "w") as file:
            for key, value in state.items():
                file.create_dataset(key, data=value.numpy(), compression="gzip" if value.ndim > 1 else None,
                                    compression_opts=1 if value.ndim > 1 else None)
        for name in ("in.safetensors", "in.h5", "packed.h5"):
            code, _, errors = run(program, scratch / "run", data, "--init", scratch / name)
            assert code == 0, errors
            out = scratch / "out.safetensors"
            code, _, errors = rekindle(program, "export", scratch / "run", out)
            assert code == 0, errors
            trained = load_file(out)  # with a rate of 0 the weights are what they were
            assert set(trained) == set(state)
            for key, value in state.items():
                # x - 0 * g turns -0 into 0 where g is negative; the file that trainers read has all bits
                assert torch.equal(trained[key], value), (name, key)
            kept = load_file(scratch / "run" / "init.safetensors")
            for key, value in state.items():
                assert kept[key].numpy().tobytes() == value.numpy().tobytes(), (name, key)
            print(f"ok: --init {name}")
        save_file(vgg11(num_classes=1000).state_dict(), scratch / "imagenet.safetensors")
        code, _, errors = run(program, scratch / "head", data, "--init", scratch / "imagenet.safetensors")
        assert code == 78 and "1000 classes, this run has 10" in errors, errors
        code, _, errors = run(program, scratch / "head", data, "--init", scratch / "imagenet.safetensors", "--reset-head")
        assert code == 0, errors
        print("ok: --reset-head")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
