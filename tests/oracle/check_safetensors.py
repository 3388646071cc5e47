#!/usr/bin/env python3
"""Loads an exported file into torchvision's model with strict=True: needs torch, torchvision and safetensors.

check_safetensors.py FILE.safetensors
"""
import sys

from networks import torchvision_of
from safetensors import safe_open
from safetensors.torch import load_file


def main(path):
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"format": "pt"}, file.metadata()
    tensors = load_file(path)
    name, model = torchvision_of(tensors)
    weights = model.state_dict()
    states = set(tensors) - set(weights) - {"updates"}
    for key in states:
        assert tensors[key].shape == weights[key.split(".", 1)[1]].shape, key
    parameters = sum(value.numel() for value in model.parameters())
    print(f"ok: {name}, {len(weights)} tensors, {parameters} parameters, {len(states)} of an optimizer")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
