"""Puts the files of the Python wheel into a folder, for `wheel pack`: wheel_folder.py BUILD FOLDER.

Every program and library is stripped, and needs no newer glibc than the wheel's name says.
"""

import pathlib
import re
import shutil
import subprocess
import sys

GLIBC = (2, 34)  # Red Hat Enterprise Linux 9, Debian 12, Ubuntu 22.04
OF_GLIBC = re.compile(r"^(libc|libm|libdl|libpthread|librt|ld-linux-x86-64)\.so")
SOURCE = pathlib.Path(__file__).resolve().parents[2]


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries_of(program):
    """Path of each shared library that a program loads, except glibc's."""
    found = re.findall(r"^\s*(\S+) => (/\S+)", output_of("ldd", str(program)), re.M)
    return {name: path for name, path in found if not OF_GLIBC.match(name)}


def newest_glibc(file):
    versions = re.findall(r"GLIBC_([0-9]+)\.([0-9]+)", output_of("objdump", "-T", str(file)))
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def version():
    text = (SOURCE / "CMakeLists.txt").read_text()
    return re.search(r"project\(rekindle VERSION ([0-9.]+)", text)[1]


def copyright_of(library):
    """The licence text of the Debian package that a file is from."""
    for path in (library, library.replace("/usr", "", 1)):
        found = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True).stdout
        if found:
            return pathlib.Path("/usr/share/doc", found.split(":")[0], "copyright")
    raise SystemExit(f"wheel_folder: no package has {library}")


def main(build, folder):
    shutil.rmtree(folder, ignore_errors=True)
    package = folder / "rekindle"
    (package / "bin" / "lib").mkdir(parents=True)
    for file in sorted((SOURCE / "python/rekindle").glob("*.py*")) + [SOURCE / "python/rekindle/py.typed"]:
        if file.is_file():
            shutil.copy(file, package)
    shutil.copy(build / "bin/python/rekindle/librekindle.so", package)
    bundled = {}
    for program in ("rekindle", "rekindle-control"):
        shutil.copy(build / "bin" / program, package / "bin")
        bundled.update(libraries_of(build / "bin" / program))
    for name, path in bundled.items():
        shutil.copy(pathlib.Path(path).resolve(), package / "bin" / "lib" / name)
    binaries = [package / "librekindle.so", *(package / "bin").glob("rekindle*"), *(package / "bin/lib").iterdir()]
    for file in binaries:
        subprocess.run(["strip", str(file)], check=True)
        file.chmod(0o755)
        if newest_glibc(file) > GLIBC:
            raise SystemExit(f"wheel_folder: {file.name} needs glibc {newest_glibc(file)}, newer than {GLIBC}")
    loaded = libraries_of(package / "librekindle.so")
    if loaded:
        raise SystemExit(f"wheel_folder: librekindle.so loads {', '.join(loaded)}, of which an interpreter may have others")

    info = folder / f"rekindle-{version()}.dist-info"
    (info / "licenses").mkdir(parents=True)
    shutil.copy(SOURCE / "LICENSE", info / "licenses")
    static = (build / "CMakeCache.txt").read_text()
    sources = [*bundled.values(), *re.findall(r"^REKINDLE_STATIC_\w+:FILEPATH=(.*)$", static, re.M),
               "/usr/include/spdlog/spdlog.h", "/usr/include/fmt/core.h", "/usr/include/CLI/CLI.hpp",
               "/usr/include/nlohmann/json.hpp", "/usr/include/toml++/toml.h", "/usr/include/tl/expected.hpp"]  # fmt: skip
    for file in sources:
        text = copyright_of(file)
        shutil.copy(text, info / "licenses" / f"{text.parent.name}.txt")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: rekindle\nVersion: {version()}\n"
        "Summary: Fault-tolerant data-parallel training with bit-identical results\n"
        "License: Apache-2.0\nRequires-Python: >=3.10\nRequires-Dist: numpy\nDescription-Content-Type: text/markdown\n\n"
        + (SOURCE / "docs/python.md").read_text()
    )
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: rekindle\nRoot-Is-Purelib: false\n"
        f"Tag: py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_x86_64\n"
    )
    (info / "entry_points.txt").write_text("[console_scripts]\nrekindle = rekindle.__main__:main\n")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
