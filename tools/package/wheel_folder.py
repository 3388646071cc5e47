"""Puts the files of the Python wheel into a folder, for `wheel pack`: wheel_folder.py BUILD FOLDER.

Every program and library is stripped and checked: it needs no newer glibc than the wheel's name says, and loads other
libraries only if they are in the wheel.
"""

import pathlib
import re
import shutil
import subprocess
import sys

GLIBC = (2, 34)  # Red Hat Enterprise Linux 9, Debian 12, Ubuntu 22.04
# Of every Linux with glibc: libgcc_s, too, because glibc itself loads it.
OF_THE_SYSTEM = re.compile(r"^(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux-x86-64)\.so")
# Where programs find libraries: lib/ of the folder that their parent holds open (base/programs.hpp).
# An RPATH comes before LD_LIBRARY_PATH, a RUNPATH behind it.
HELD = [("RPATH", "/proc/self/fd/40/lib")]
HEADERS = ["spdlog/spdlog.h", "fmt/core.h", "CLI/CLI.hpp", "nlohmann/json.hpp", "toml++/toml.h", "tl/expected.hpp",
           "boost/version.hpp"]
CUDA_LIBRARY = "librekindle_cuda.so"  # only of a build with CUDA
WITH_LIBRARIES = ("rekindle-control", "rekindle-board")  # programs whose libraries have no static form in Debian
COMMON_LICENSES = pathlib.Path("/usr/share/common-licenses")
SOURCE = pathlib.Path(__file__).resolve().parents[2]
CUDA_NOTICE = f"""{CUDA_LIBRARY} contains the CUDA runtime (libcudart_static.a), (c) NVIDIA Corporation, which its licence
allows to be distributed with programs (attachment A): https://docs.nvidia.com/cuda/eula/
"""


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries_of(program):
    """Path of each shared library that a program loads, except the system's."""
    found = re.findall(r"^\s*(\S+) => (/\S+)", output_of("ldd", str(program)), re.M)
    return {name: path for name, path in found if not OF_THE_SYSTEM.match(name)}


def version():
    text = (SOURCE / "python/rekindle/__init__.py").read_text()
    return re.search(r'^__version__ = "([0-9.]+)"', text, re.M)[1]


def check(file, run_path, may_load):
    """A program or library of the wheel."""
    versions = re.findall(r"GLIBC_([0-9]+)\.([0-9]+)", output_of("objdump", "-T", str(file)))
    newest = max((int(major), int(minor)) for major, minor in versions)
    if newest > GLIBC:
        raise SystemExit(f"wheel_folder: {file.name} needs glibc {newest}, newer than {GLIBC}")
    dynamic = output_of("readelf", "-dW", str(file))
    if (found := re.findall(r"\((RPATH|RUNPATH)\).*\[(.*)\]", dynamic)) != run_path:
        raise SystemExit(f"wheel_folder: {file.name} looks for libraries in {found}, and not in {run_path}")
    needed = {name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic) if not OF_THE_SYSTEM.match(name)}
    if needed - may_load:
        raise SystemExit(f"wheel_folder: {file.name} loads {needed - may_load}")
    return needed


def check_all(package, bundled):
    check(package / "bin/rekindle", HELD, set())
    # A library's own libraries are not looked for in lib/: they are found because the program has loaded them.
    needed = set()
    for program in WITH_LIBRARIES:
        needed |= check(package / "bin" / program, HELD, set(bundled))
    for name in bundled:
        check(package / "bin/lib" / name, [], needed)
    for program in WITH_LIBRARIES:
        loaded = output_of("env", f"LD_LIBRARY_PATH={package / 'bin/lib'}", "ldd", "-r", str(package / "bin" / program))
        if "undefined symbol" in loaded or "not found" in loaded:
            raise SystemExit(f"wheel_folder: {program}:\n{loaded}")
    # An interpreter may have other versions of the same libraries.
    check(package / "librekindle.so", [], set())
    check_exported(package / "librekindle.so", "rk_")
    if (package / CUDA_LIBRARY).exists():
        check(package / CUDA_LIBRARY, [], set())
        check_exported(package / CUDA_LIBRARY, "rekindle_open_cuda_device")


def check_exported(library, prefix):
    exported = re.findall(r" g .* (\S+)$", output_of("objdump", "-T", str(library)), re.M)
    if not exported or not all(name.startswith(prefix) for name in exported):
        raise SystemExit(f"wheel_folder: {library.name} exports {exported}")


def copyright_of(file):
    """The licence text of the Debian package that a file is from."""
    below_usr = file.removeprefix("/usr")  # /lib is /usr/lib, and the package lists one of them
    for path in (below_usr, "/usr" + below_usr):
        found = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True).stdout
        if found:
            return pathlib.Path("/usr/share/doc", found.split(":")[0], "copyright")
    raise SystemExit(f"wheel_folder: no package has {file}")


def write_licenses(folder, files):
    """The project's licence, and those of the packages of some files, with the texts that they refer to."""
    folder.mkdir(parents=True)
    shutil.copy(SOURCE / "LICENSE", folder)
    for text in sorted({copyright_of(file) for file in files}):
        shutil.copy(text, folder / f"{text.parent.name}.txt")
        for name in re.findall(rf"{COMMON_LICENSES}/([\w+.-]*[\w+])", text.read_text()):
            shutil.copy(COMMON_LICENSES / name, folder)


def main(build, folder):
    shutil.rmtree(folder, ignore_errors=True)
    package = folder / "rekindle"
    (package / "bin" / "lib").mkdir(parents=True)
    for file in sorted((SOURCE / "python/rekindle").glob("*.py")) + [SOURCE / "python/rekindle/py.typed"]:
        shutil.copy(file, package)
    shutil.copy(build / "bin/python/rekindle/librekindle.so", package)
    cache = (build / "CMakeCache.txt").read_text()
    with_cuda = "\nREKINDLE_CUDA:BOOL=ON\n" in cache
    if with_cuda:
        shutil.copy(build / "bin/python/rekindle" / CUDA_LIBRARY, package)
    bundled = {}
    for program in WITH_LIBRARIES:
        bundled |= libraries_of(build / "bin" / program)
    for program in ("rekindle", *WITH_LIBRARIES):
        shutil.copy(build / "bin" / program, package / "bin")
    own = {"libstdc++.so.6": build / "libstdc++.so.6"}  # Debian's needs glibc 2.36
    for name, path in (bundled | own).items():
        shutil.copy(pathlib.Path(path).resolve(), package / "bin/lib" / name)
    binaries = {*package.glob("*.so"), *(package / "bin").glob("rekindle*"), *(package / "bin/lib").iterdir()}
    for file in binaries:
        subprocess.run(["strip", str(file)], check=True)
    check_all(package, bundled)

    info = folder / f"rekindle-{version()}.dist-info"
    static = re.findall(r"^REKINDLE_STATIC_\w+:FILEPATH=(.*)$", cache, re.M)
    write_licenses(info / "licenses", [*bundled.values(), *static, *(f"/usr/include/{name}" for name in HEADERS)])
    if with_cuda:
        (info / "licenses/cuda.txt").write_text(CUDA_NOTICE)
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
    for file in folder.rglob("*"):  # whatever the umask is
        file.chmod(0o755 if file.is_dir() or file in binaries else 0o644)


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
