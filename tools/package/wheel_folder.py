"""Puts the files of the Python wheel into a folder, for `wheel pack`: wheel_folder.py BUILD FOLDER.

Every program and library is stripped and checked: it needs no newer glibc than the wheel's name says, and loads other
libraries only if they are in the wheel.
"""

import os
import pathlib
import platform
import shutil
import sys

import binaries
import sbom

# Models in Python have no use for rekindle-trainer, which needs LibTorch.
PROGRAMS = ("rekindle", "rekindle-control", "rekindle-board")
DESCRIPTION = """Rekindle trains a PyTorch model on many processes. If a process, a node or a whole job dies, the others go
on, or the job comes back by itself, and the final weights have the same bits as without any fault.

The documents are in share/doc/rekindle of the environment; docs/python.md is the one to begin with.
"""


def main(build, folder):
    shutil.rmtree(folder, ignore_errors=True)
    package = folder / "rekindle"
    binaries.copy_python_package(build, package)
    bundled = binaries.copy_programs(build, package / "bin", PROGRAMS, [])
    files = binaries.strip_and_check(package / "bin", PROGRAMS, package)

    version = binaries.version()
    info = folder / f"rekindle-{version}.dist-info"
    # Messages name them. An installation puts them into share/doc/rekindle of the environment.
    binaries.copy_documents(folder / f"rekindle-{version}.data/data/share/doc/rekindle")
    packages = binaries.packages_in(build, bundled)
    binaries.write_licenses(build, info / "licenses", packages)
    (info / "sboms").mkdir()  # PEP 770
    cuda = [("nvidia-cuda-runtime", binaries.cuda_version())] if binaries.has_cuda(build) else []
    sbom.write(info / "sboms/rekindle.cdx.json", packages, cuda, package, f"{info.name}/licenses")
    texts = sorted(str(file.relative_to(info / "licenses")) for file in (info / "licenses").rglob("*") if file.is_file())
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: rekindle\nVersion: {version}\n"
        "Summary: Fault-tolerant data-parallel training with bit-identical results\n"
        "License-Expression: Apache-2.0\n"
        + "".join(f"License-File: {text}\n" for text in texts)
        + "Requires-Python: >=3.10\nRequires-Dist: numpy\nDescription-Content-Type: text/plain\n\n"
        + DESCRIPTION
    )
    major, minor = binaries.GLIBC
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: rekindle\nRoot-Is-Purelib: false\n"
        f"Tag: py3-none-manylinux_{major}_{minor}_{platform.machine()}\n"
    )
    (info / "entry_points.txt").write_text("[console_scripts]\nrekindle = rekindle.__main__:main\n")
    examples = {file for file in (folder / f"rekindle-{version}.data").rglob("*") if file.suffix in (".sh", ".py") and os.access(file, os.X_OK)}
    binaries.set_modes(folder, files | examples)


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
