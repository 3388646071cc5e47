"""`python -m rekindle`, and the command `rekindle`: becomes the C++ program.

Its scripts are run by this interpreter, if REKINDLE_PYTHON does not name another one.
"""

from __future__ import annotations

import os
import sys

from rekindle._programs import environment, program


def main() -> None:
    """Does not return."""
    named = os.environ.get("REKINDLE_PYTHON", "")
    os.execve(program("rekindle"), ["rekindle", *sys.argv[1:]], environment(named))


if __name__ == "__main__":
    main()
