#!/usr/bin/env python3
"""Loads an exported file into torchvision's vgg11 with strict=True: needs torch, torchvision and safetensors.

check_safetensors.py FILE.safetensors
"""
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torchvision.models import vgg11


def main(path):
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"format": "pt"}, file.metadata()
    tensors = load_file(path)
    # strict: an export with --with-optimizer has keys that no model has
    momenta = {key: tensors.pop(key) for key in list(tensors) if key.startswith("momentum.")}
    classes = tensors["classifier.6.bias"].shape[0]
    model = vgg11(num_classes=classes)
    model.load_state_dict(tensors, strict=True)
    for key, value in model.state_dict().items():
        assert torch.equal(value, tensors[key]), key
    for key, value in momenta.items():
        assert value.shape == tensors[key.removeprefix("momentum.")].shape, key
    with torch.no_grad():
        out = model.eval()(torch.zeros(1, 3, 64, 64))
    assert out.shape == (1, classes) and torch.isfinite(out).all()
    parameters = sum(value.numel() for value in tensors.values())
    print(f"ok: {len(tensors)} tensors, {parameters} parameters, {classes} classes, {len(momenta)} momenta")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
