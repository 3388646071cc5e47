"""The generators of torch, numpy and random, seeded from one key."""

from __future__ import annotations

import random
import sys

import torch


def seed_all(key: int) -> None:
    """Seeds every default generator. `key`: 64 bits."""
    torch.default_generator.manual_seed(key)
    random.seed(key)
    if (numpy := sys.modules.get("numpy")) is not None and hasattr(numpy, "random"):
        numpy.random.seed(key & 0xFFFFFFFF)
