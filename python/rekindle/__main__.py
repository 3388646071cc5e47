"""`python -m rekindle`, and the command `rekindle`: becomes the C++ program, whose scripts this interpreter runs."""

from __future__ import annotations

import os
import sys

from rekindle._programs import environment, program


def main() -> None:
    """Does not return."""
    os.execve(program("rekindle"), ["rekindle", *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
