"""Turns a copy of the tree (tree.py) into the folder of a Debian package, for `dpkg-deb --build`: deb_folder.py TREE FOLDER."""

import email.utils
import gzip
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import binaries

CONTROL = """Package: rekindle
Version: {version}
Architecture: {architecture}
Maintainer: The Rekindle authors <rekindle@localhost>
Installed-Size: {kib}
Depends: libc6 (>= {glibc}), libgcc-s1
Suggests: slurm-client, python3
Section: science
Priority: optional
Description: fault-tolerant data-parallel training with bit-identical results
 Trains VGG, ResNet, GPT and PyTorch models with several processes, on one
 machine or on a cluster with Slurm. A run survives lost processes and nodes,
 time limits and preemption, and its final weights have the same bits as
 those of a run that nothing has disturbed.
 .
 LibTorch's libraries for CPUs are included. On GPUs, models in Python train
 with the libraries of their own PyTorch.
"""


# Python writes these folders if root runs a script, and dpkg does not know them.
PRERM = """#!/bin/sh
set -e
[ ! -d /usr/libexec/rekindle/python ] || find /usr/libexec/rekindle/python -depth -type d -name __pycache__ -exec rm -rf {} +
"""


def pack(file, text):
    """gzip without a name and a time."""
    with file.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(text.encode())


def main(tree, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Hard links: half a gigabyte is not copied, and no file of the tree is changed.
    shutil.copytree(tree, folder / "usr", symlinks=True, copy_function=os.link)
    documents = folder / "usr/share/doc/rekindle"
    # Images for containers (Ubuntu's, and Debian's slim ones) have dpkg leave out /usr/share/doc, but for files named copyright. Copies:
    # dpkg cannot unpack a hard link to a file that it has left out.
    licenses = folder / "usr/share/rekindle/licenses"
    shutil.copytree(documents / "licenses", licenses)
    manual = folder / "usr/share/man/man1/rekindle.1"
    pack(manual.with_suffix(".1.gz"), manual.read_text())
    manual.unlink()
    date = email.utils.formatdate(int(os.environ["SOURCE_DATE_EPOCH"]))
    version = binaries.version()
    pack(documents / "changelog.gz",
         f"rekindle ({version}) stable; urgency=medium\n\n  * See CHANGELOG.md.\n\n"
         f" -- The Rekindle authors <rekindle@localhost>  {date}\n")  # fmt: skip
    names = "\n".join(sorted(file.name for file in licenses.iterdir()))
    (documents / "copyright").write_text(
        f"{(binaries.SOURCE / 'LICENSE').read_text()}\n\nOther projects have these licences, in /usr/share/rekindle/licenses:\n{names}\n")
    (folder / "DEBIAN").mkdir()
    sizes = sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
    glibc = ".".join(map(str, binaries.GLIBC))
    architecture = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()
    control = CONTROL.format(version=version, architecture=architecture, kib=sizes // 1024, glibc=glibc)
    (folder / "DEBIAN/control").write_text(control)
    (folder / "DEBIAN/prerm").write_text(PRERM)
    files = sorted(file for file in (folder / "usr").rglob("*") if file.is_file() and not file.is_symlink())
    (folder / "DEBIAN/md5sums").write_text("".join(
        f"{hashlib.md5(file.read_bytes()).hexdigest()}  {file.relative_to(folder)}\n" for file in files))  # fmt: skip
    made = (documents / "copyright", documents / "changelog.gz", manual.with_suffix(".1.gz"))
    for new in (*made, folder / "DEBIAN/control", folder / "DEBIAN/md5sums"):
        new.chmod(0o644)
    (folder / "DEBIAN/prerm").chmod(0o755)
    for each in (folder, *folder.rglob("*")):
        if each.is_dir() and not each.is_symlink():
            each.chmod(0o755)


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
