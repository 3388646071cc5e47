"""Puts the files of the Python wheel into a folder, for `wheel pack`: wheel_folder.py BUILD FOLDER.

Every program and library is stripped and checked: it needs no newer glibc than the wheel's name says, and loads other
libraries only if they are in the wheel.
"""

import pathlib
import platform
import shutil
import sys

import binaries
import sbom

# Models in Python have no use for rekindle-trainer, which needs LibTorch.
PROGRAMS = ("rekindle", "rekindle-control", "rekindle-board")


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
    sbom.write(info / "sboms/rekindle.cdx.json", packages, [], package, f"{info.name}/licenses")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: rekindle\nVersion: {version}\n"
        "Summary: Fault-tolerant data-parallel training with bit-identical results\n"
        "License: Apache-2.0\nRequires-Python: >=3.10\nRequires-Dist: numpy\nDescription-Content-Type: text/markdown\n\n"
        + (binaries.SOURCE / "docs/python.md").read_text()
    )
    major, minor = binaries.GLIBC
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: rekindle\nRoot-Is-Purelib: false\n"
        f"Tag: py3-none-manylinux_{major}_{minor}_{platform.machine()}\n"
    )
    (info / "entry_points.txt").write_text("[console_scripts]\nrekindle = rekindle.__main__:main\n")
    binaries.set_modes(folder, files)


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
