"""What the wheel and the other packages have in common: which libraries a program may need, and whose licence it has."""

import pathlib
import re
import shutil
import subprocess

GLIBC = (2, 28)  # as LibTorch
# Of every Linux with glibc: libgcc_s, too, because glibc itself loads it.
OF_THE_SYSTEM = re.compile(r"^(libc|libm|libdl|libpthread|librt|libutil|libgcc_s|ld-linux-(x86-64|aarch64))\.so")
# Where programs find libraries: lib/ of the folder that their parent holds open (base/programs.hpp).
# An RPATH comes before LD_LIBRARY_PATH, a RUNPATH behind it.
HELD = [("RPATH", "/proc/self/fd/40/lib")]
HEADERS = ["spdlog/spdlog.h", "fmt/core.h", "CLI/CLI.hpp", "nlohmann/json.hpp", "toml++/toml.h", "tl/expected.hpp",
           "boost/version.hpp", "caf/all.hpp"]
CUDA_LIBRARY = "librekindle_cuda.so"  # only of a build with CUDA
CUDA_NOTICE = f"""{CUDA_LIBRARY} contains the CUDA runtime (libcudart_static.a), (c) NVIDIA Corporation, which the licence below
allows to be distributed with programs (attachment A).

"""
COMMON_LICENSES = pathlib.Path("/usr/share/common-licenses")
SOURCE = pathlib.Path(__file__).resolve().parents[2]


def fail(why):
    raise SystemExit(f"package: {why}")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def version():
    text = (SOURCE / "python/rekindle/__init__.py").read_text()
    return re.search(r'^__version__ = "([0-9.]+)"', text, re.M)[1]


def libraries_of(program, folders=()):
    """Path of each shared library that a program loads, except the system's. `folders` are searched first."""
    found = output_of("env", "LD_LIBRARY_PATH=" + ":".join(map(str, folders)), "ldd", str(program))
    if "not found" in found:
        fail(f"{program}:\n{found}")
    libraries = re.findall(r"^\s*(\S+) => (/\S+)", found, re.M)
    return {name: path for name, path in libraries if not OF_THE_SYSTEM.match(name)}


def copy_python_package(build, folder):
    """The package `rekindle` with its libraries."""
    folder.mkdir(parents=True)
    for file in sorted((SOURCE / "python/rekindle").glob("*.py")) + [SOURCE / "python/rekindle/py.typed"]:
        shutil.copy(file, folder)
    (folder / "_alone").mkdir()
    shutil.copy(SOURCE / "python/rekindle/_alone/rekindle.py", folder / "_alone")
    shutil.copy(build / "bin/python/rekindle/librekindle.so", folder)
    if has_cuda(build):
        shutil.copy(build / "bin/python/rekindle" / CUDA_LIBRARY, folder)


def copy_documents(folder):
    """Those that git knows: a checkout may have other files."""
    names = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "docs", "examples"]
    git = ["git", "-c", f"safe.directory={SOURCE}", "-C", str(SOURCE)]
    for name in output_of(*git, "ls-files", *names).splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / name, folder / name)


def copy_programs(build, folder, programs, of_torch):
    """Programs, and in lib/ the libraries that they need. Returns the paths that these were copied from."""
    (folder / "lib").mkdir(parents=True)
    bundled = {}
    for program in programs:
        shutil.copy(build / "bin" / program, folder)
        bundled |= libraries_of(build / "bin" / program, of_torch)
    bundled["libstdc++.so.6"] = str(build / "libstdc++.so.6")  # Debian's needs glibc 2.36
    for name, path in bundled.items():
        shutil.copy(pathlib.Path(path).resolve(), folder / "lib" / name)
    return bundled


def has_cuda(build):
    return "\nREKINDLE_CUDA:BOOL=ON\n" in (build / "CMakeCache.txt").read_text()


def cuda_info():
    """What NVIDIA's package of the CUDA runtime says of itself; LibTorch's libraries need that package in each build."""
    [folder] = (SOURCE / "build/torch").glob("nvidia_cuda_runtime-*.dist-info")
    return folder


def cuda_version():
    return cuda_info().name.removesuffix(".dist-info").split("-")[1]


def strip_and_check(folder, programs, package):
    """What copy_programs() and copy_python_package() have put there. Returns the files that are machine code."""
    files = {*folder.glob("rekindle*"), *(folder / "lib").iterdir(), *package.glob("*.so")}
    for file in files:
        subprocess.run(["strip", str(file)], check=True)
    check_programs(folder, programs)
    check_python_package(package)
    return files


def check(file, run_path, may_load):
    """A program or library of a package: it needs no newer glibc, and loads only what is in the package."""
    versions = re.findall(r"GLIBC_([0-9]+)\.([0-9]+)", output_of("objdump", "-T", str(file)))
    newest = max((int(major), int(minor)) for major, minor in versions)
    if newest > GLIBC:
        fail(f"{file.name} needs glibc {newest}, newer than {GLIBC}")
    dynamic = output_of("readelf", "-dW", str(file))
    if run_path is not None and (found := re.findall(r"\((RPATH|RUNPATH)\).*\[(.*)\]", dynamic)) != run_path:
        fail(f"{file.name} looks for libraries in {found}, and not in {run_path}")
    needed = {name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic) if not OF_THE_SYSTEM.match(name)}
    if needed - may_load:
        fail(f"{file.name} loads {needed - may_load}")


def check_programs(folder, programs):
    """The programs of a folder with lib/, as they will be loaded."""
    libraries = {file.name for file in (folder / "lib").iterdir()}
    for program in programs:
        check(folder / program, HELD, libraries)
        loaded = output_of("env", f"LD_LIBRARY_PATH={folder / 'lib'}", "ldd", "-r", str(folder / program))
        if "undefined symbol" in loaded or "not found" in loaded:
            fail(f"{program}:\n{loaded}")
    for name in libraries:
        # A library's own libraries are not looked for in lib/: they are found because the program has loaded them.
        # LibTorch's have a path of their own, below $ORIGIN.
        dynamic = output_of("readelf", "-dW", str(folder / "lib" / name))
        for path in ":".join(re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)).split(":"):
            if path and not re.match(r"\$ORIGIN(/|$)", path):
                fail(f"{name} looks for libraries in {path}")
        check(folder / "lib" / name, None, libraries)


def check_python_package(folder):
    # An interpreter may have other versions of the same libraries.
    for name, prefix in (("librekindle.so", "rk_"), (CUDA_LIBRARY, "rekindle_")):
        library = folder / name
        if not library.exists():
            continue
        check(library, [], set())
        exported = re.findall(r" g .* (\S+)$", output_of("objdump", "-T", str(library)), re.M)
        if not exported or not all(each.startswith(prefix) for each in exported):
            fail(f"{name} exports {exported}")


def package_of(file):
    """The Debian package that a file is from."""
    below_usr = file.removeprefix("/usr")  # /lib is /usr/lib, and the package lists one of them
    for path in (below_usr, "/usr" + below_usr):
        found = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True).stdout
        if found:
            return found.split(":")[0]
    return fail(f"no package has {file}")


def packages_in(build, bundled):
    """The Debian packages that programs, libraries in lib/ and librekindle.so have parts of."""
    static = re.findall(r"^REKINDLE_STATIC_\w+:FILEPATH=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    of_debian = [path for path in bundled.values() if path.startswith(("/usr/", "/lib/"))]
    files = [*of_debian, *static, *(f"/usr/include/{name}" for name in HEADERS),
             output_of("g++", "-print-file-name=libstdc++.a").strip()]  # fmt: skip
    return sorted({package_of(str(pathlib.Path(file).resolve())) for file in files})


def write_licenses(build, folder, packages):
    """The project's licence, and those of Debian packages, with the texts that they refer to."""
    folder.mkdir(parents=True)
    shutil.copy(SOURCE / "LICENSE", folder)
    for package in packages:
        text = pathlib.Path("/usr/share/doc", package, "copyright")
        shutil.copy(text, folder / f"{package}.txt")
        for name in re.findall(rf"{COMMON_LICENSES}/([\w+.-]*[\w+])", text.read_text()):
            shutil.copy(COMMON_LICENSES / name, folder)
    shutil.copy(SOURCE / "board/page/uplot.LICENSE", folder / "uplot.txt")  # in rekindle-board
    if has_cuda(build):
        (folder / "cuda.txt").write_text(CUDA_NOTICE + (cuda_info() / "licenses/License.txt").read_text())


def set_modes(folder, programs):
    """Whatever the umask is."""
    for file in folder.rglob("*"):
        if not file.is_symlink():
            file.chmod(0o755 if file.is_dir() or file in programs else 0o644)
    folder.chmod(0o755)
