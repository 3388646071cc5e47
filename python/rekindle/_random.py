"""torch, and the generators of torch, numpy and random, seeded from one key."""

from __future__ import annotations

import random
import sys

import torch

from rekindle._errors import RekindleError


def check_torch() -> None:
    """Hooks behind the accumulation of a gradient came with torch 2.1."""
    if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        raise RekindleError(f"{sys.executable} has torch {torch.__version__}", "2.1 is the oldest that works")


def seed_all(key: int) -> None:
    """Seeds every default generator. `key`: 64 bits."""
    torch.default_generator.manual_seed(key)
    if torch.cuda.is_initialized():  # not in a process of a DataLoader
        torch.cuda.manual_seed(key)
    random.seed(key)
    if (numpy := sys.modules.get("numpy")) is not None and hasattr(numpy, "random"):
        numpy.random.seed(key & 0xFFFFFFFF)
