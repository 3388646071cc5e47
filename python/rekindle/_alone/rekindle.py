"""The package `rekindle` for the interpreter of a trainer, whose PYTHONPATH has this folder.

The folder above the package has pip's other packages of the environment in which Rekindle is installed. In PYTHONPATH
they would come before the interpreter's own, which is that of a container, or another one (--python).
"""

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location("rekindle", Path(__file__).absolute().parents[1] / "__init__.py")
if _spec is None or _spec.loader is None:
    raise ImportError("the package rekindle is not complete")
_package = importlib.util.module_from_spec(_spec)
sys.modules["rekindle"] = _package
_spec.loader.exec_module(_package)

if __name__ == "__main__":  # python -m rekindle
    from rekindle.__main__ import main

    main()
