#!/usr/bin/env python3
"""Loads an exported .pt into torchvision's model with strict=True: needs torch, torchvision and numpy.

check_torch.py FILE.pt [FILE.safetensors]     with a second file: both must hold the same bits
"""
import sys

import torch
from check_pt import check_layout
from networks import torchvision_of


def main(path, other=None):
    check_layout(path)
    tensors = torch.load(path, weights_only=True)
    mapped = torch.load(path, weights_only=True, mmap=True)
    assert list(mapped) == list(tensors)
    for key, value in tensors.items():
        assert value.dtype == mapped[key].dtype and value.numpy().tobytes() == mapped[key].numpy().tobytes(), key
    if other:
        from safetensors.torch import load_file

        same = load_file(other)
        assert set(same) == set(tensors)
        for key, value in tensors.items():
            assert value.dtype == same[key].dtype and value.shape == same[key].shape, key
            assert value.numpy().tobytes() == same[key].numpy().tobytes(), key
    name, model = torchvision_of(tensors)
    weights = len(model.state_dict())
    print(f"ok: {name}, {weights} tensors, {len(tensors) - weights} of an optimizer")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
