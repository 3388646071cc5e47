#!/usr/bin/env python3
"""Files that Python writes start a run, and its export loads in torchvision: needs torch, torchvision, safetensors, h5py and
numpy.

check_init.py REKINDLE DATA_DIR MODEL...    the program; a CIFAR-10 folder (rekindle make-data cifar10 DATA_DIR --samples 100);
                                            models of torchvision, such as vgg11, vgg16_bn, resnet18
"""
import pathlib
import subprocess
import sys
import tempfile

import h5py
import torch
from hashed import INIT, stream_key
from networks import torchvision_of
from safetensors.torch import load_file, save_file
from torchvision.models import get_model

BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


def rekindle(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def run(program, directory, data, model, *more):
    """One step with a rate of 0: the parameters stay what they were."""
    return rekindle(program, "local", "--run-dir", directory, "--data", data, "--model", model, "--image-size", 64,
                    "--batch-size", 8, "--micro-batches", 4, "--steps", 1, "--optimizer", "sgd", "--lr", 0,
                    "--weight-decay", 0, *more)


def export(program, directory, out):
    code, _, errors = rekindle(program, "export", directory, out, "--force")
    assert code == 0, errors
    return load_file(out)


def state_of(name):
    """Random values for all tensors, those of batch normalizations included, and the numbers that are easily lost."""
    torch.manual_seed(7)
    state = get_model(name, num_classes=10).state_dict()
    for key, value in state.items():
        if key.endswith("running_mean"):
            value.normal_()
        if key.endswith("running_var"):
            value.uniform_(0.5, 1.5)
        if key.endswith("num_batches_tracked"):
            value.fill_(1 << 40)
    state[next(key for key in state if key.endswith("bias"))][:4] = torch.tensor([0.0, -0.0, 1e-40, -1e-45])
    return state


def check_trained(trained, state, source):
    for key, value in state.items():
        if key.endswith("num_batches_tracked"):
            assert trained[key] == value + 1 and trained[key].dtype == torch.int64, (source, key)
        elif key.endswith(BUFFERS):
            # 0.9 of the old statistics and 0.1 of the batch's
            assert not torch.equal(trained[key], value), (source, key)
            moved = (trained[key] - 0.9 * value).double().std() / value.double().std()
            assert moved < 0.9 or key.endswith("var"), (source, key, moved)
        else:
            # x - 0 * g turns -0 into 0 where g is negative; the file that trainers read has all bits
            assert torch.equal(trained[key], value), (source, key)


def check_files(program, data, name, scratch):
    state = state_of(name)
    save_file(state, scratch / "in.safetensors")
    with h5py.File(scratch / "in.h5", "w") as file:
        for key, value in state.items():
            file[key] = value.numpy()
    with h5py.File(scratch / "packed.h5", "w") as file:
        for key, value in state.items():
            packed = {"compression": "gzip", "compression_opts": 1} if value.ndim > 1 else {}
            file.create_dataset(key, data=value.numpy(), **packed)
    for source in ("in.safetensors", "in.h5", "packed.h5"):
        directory = scratch / f"run-{source}"
        code, _, errors = run(program, directory, data, name, "--init", scratch / source)
        assert code == 0, errors
        trained = export(program, directory, scratch / "out.safetensors")
        assert torchvision_of(trained)[0] == name
        check_trained(trained, state, source)
        kept = load_file(directory / "init.safetensors")
        for key, value in state.items():
            assert kept[key].numpy().tobytes() == value.numpy().tobytes(), (source, key)
        print(f"ok: {name} --init {source}", flush=True)


def check_head(program, data, name, scratch):
    file = scratch / "imagenet.safetensors"
    save_file(get_model(name, num_classes=1000).state_dict(), file)
    code, _, errors = run(program, scratch / "head", data, name, "--init", file)
    assert code == 78 and "1000 classes, this run has 10" in errors, errors
    code, _, errors = run(program, scratch / "head", data, name, "--init", file, "--reset-head")
    assert code == 0, errors
    print(f"ok: {name} --reset-head", flush=True)


def check_drawn(program, data, name, scratch):
    """Without --init the values are those that torchvision draws from the same key."""
    code, _, errors = run(program, scratch / "drawn", data, name, "--seed", 3)
    assert code == 0, errors
    drawn = export(program, scratch / "drawn", scratch / "drawn.safetensors")
    torch.manual_seed(stream_key(3, INIT))
    for key, value in get_model(name, num_classes=10).named_parameters():
        assert torch.allclose(drawn[key], value, rtol=1e-5, atol=1e-8), key  # another processor's logarithm rounds otherwise
    print(f"ok: {name} draws torchvision's initial values", flush=True)


def main(program, data, *models):
    for name in models:
        with tempfile.TemporaryDirectory() as scratch:
            check_files(program, data, name, pathlib.Path(scratch))
        with tempfile.TemporaryDirectory() as scratch:
            check_head(program, data, name, pathlib.Path(scratch))
        with tempfile.TemporaryDirectory() as scratch:
            check_drawn(program, data, name, pathlib.Path(scratch))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
