#!/usr/bin/env python3
"""Loads an exported .pt into torchvision's vgg11 with strict=True: needs torch, torchvision and numpy.

check_torch.py FILE.pt [FILE.safetensors]     with a second file: both must hold the same bits
"""
import sys

import torch
from check_pt import check_layout
from torchvision.models import vgg11


def main(path, other=None):
    check_layout(path)
    tensors = torch.load(path, weights_only=True)
    mapped = torch.load(path, weights_only=True, mmap=True)
    assert list(mapped) == list(tensors)
    for key, value in tensors.items():
        assert torch.equal(value.view(torch.uint8), mapped[key].view(torch.uint8)), key
    if other:
        from safetensors.torch import load_file

        same = load_file(other)
        assert set(same) == set(tensors)
        for key, value in tensors.items():
            assert value.dtype == same[key].dtype and value.shape == same[key].shape, key
            assert value.numpy().tobytes() == same[key].numpy().tobytes(), key
    weights = {key: value for key, value in tensors.items() if not key.startswith("momentum.")}
    classes = weights["classifier.6.bias"].shape[0]
    model = vgg11(num_classes=classes)
    model.load_state_dict(weights, strict=True)
    with torch.no_grad():
        out = model.eval()(torch.zeros(1, 3, 64, 64))
    assert out.shape == (1, classes) and torch.isfinite(out).all()
    print(f"ok: {len(weights)} tensors, {classes} classes, {len(tensors) - len(weights)} momenta")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
