"""The programs call no function that the packages cannot have: newer_glibc.py PROGRAM_OR_LIBRARY...

Packages run with glibc 2.28 (tools/package/binaries.py) and are linked with Debian 11's glibc 2.31; a developer's build
has a newer glibc. For each function that a program takes from the newer glibc, this test asks what Debian 11 would give:
the newest version of the symbol up to 2.31. That version must not be newer than 2.28. The static libraries that only
packages contain are checked by `./dev package` itself.
"""

import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tools/package"))
import binaries

LINKED_WITH = (2, 31)  # tools/package/needs.sh
OLD_GLIBC = SOURCE / "cmake/portable/old_glibc.cpp"
# Before glibc 2.33 these functions were in libc_nonshared.a, which is linked into each program.
IN_EACH_PROGRAM = {name + bits for name in ("stat", "fstat", "lstat", "fstatat", "mknod", "mknodat") for bits in ("", "64")}


def symbols(file):
    """(name, version) of each dynamic symbol that has a version of glibc: in a program those that it calls."""
    found = re.findall(r"\(?\bGLIBC_(\d+)\.(\d+)(?:\.\d+)?\)?\s+(\w+)$", binaries.output_of("objdump", "-T", file), re.M)
    return [(name, (int(major), int(minor))) for major, minor, name in found]


def versions_here(program):
    """{name: versions} of this machine's glibc."""
    found = {}
    for library, path in re.findall(r"^\s*(\S+) => (/\S+)", binaries.output_of("ldd", program), re.M):
        if binaries.OF_THE_SYSTEM.match(library):
            for name, version in symbols(path):
                found.setdefault(name, set()).add(version)
    return found


def too_new(file, twins):
    known = versions_here(file)
    for name, version in symbols(file):
        old = max((each for each in known.get(name, ()) if each <= LINKED_WITH), default=version)
        if version > binaries.GLIBC and old > binaries.GLIBC and name not in twins | IN_EACH_PROGRAM:
            yield f"{pathlib.Path(file).name} calls {name} of glibc {'.'.join(map(str, version))}"


def main(files):
    # Definitions begin in the first column: `double pow(`, `char __libc_single_threaded = `.
    twins = set(re.findall(r"^(?:[\w:*]+ )+(\w+)(?:\(| = )", OLD_GLIBC.read_text(), re.M))
    if found := [line for file in files for line in too_new(file, twins)]:
        sys.exit("\n".join(found) + "\nThe packages must work with glibc " + ".".join(map(str, binaries.GLIBC))
                 + f": call another function, or define this one in {OLD_GLIBC.relative_to(SOURCE)}.")  # fmt: skip
    # A planted error: without the twins, there is something to be found.
    if not any(line for file in files for line in too_new(file, set())):
        sys.exit(f"This test finds nothing even without {OLD_GLIBC.relative_to(SOURCE)}: does objdump -T print something else now?")


main(sys.argv[1:])
