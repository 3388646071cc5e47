"""Waiting for what a real run does."""

import pathlib
import sys
import time

LIMIT_S = 120


def wait_for(what, found):
    """The first true value of found(); without one, the end of the program."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.2)
    raise SystemExit(f"{pathlib.Path(sys.argv[0]).stem}: no {what} within {LIMIT_S} s")
