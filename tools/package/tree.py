"""Puts everything that a package installs into a folder, which may be moved: tree.py BUILD FOLDER.

    bin/rekindle              a link to the program in libexec/rekindle
    libexec/rekindle/         the programs; lib/, LibTorch's libraries for CPUs among them; python/, the Python package
    share/man, share/*        the manual page, completion for bash, zsh and fish
    share/doc/rekindle/       README, documents, examples, licences, and the list of parts (sbom.cdx.json)
"""

import os
import pathlib
import shutil
import sys

import binaries
import sbom

PROGRAMS = ("rekindle", "rekindle-control", "rekindle-board", "rekindle-trainer")
TORCH = binaries.SOURCE / "build/torch"
ONE_MKL = binaries.SOURCE / "tools/package/licenses/oneMKL.txt"  # a part of LibTorch that its own licences do not name
COMPLETIONS = {
    "bash": "share/bash-completion/completions/rekindle",
    "zsh": "share/zsh/vendor-completions/_rekindle",
    "fish": "share/fish/vendor_completions.d/rekindle.fish",
}


def write_texts(folder):
    """What the program says about itself."""
    program = folder / "libexec/rekindle/rekindle"
    files = {"share/man/man1/rekindle.1": ["manual"]}
    files |= {file: ["completion", shell] for shell, file in COMPLETIONS.items()}
    for name, words in files.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(binaries.output_of(str(program), *words))


def write_documents(build, folder, bundled):
    documents = folder / "share/doc/rekindle"
    binaries.copy_documents(documents)
    packages = binaries.packages_in(build, bundled)
    binaries.write_licenses(build, documents / "licenses", packages)
    wheels = []
    for info in sorted(TORCH.glob("*.dist-info")):
        name, version = info.name.removesuffix(".dist-info").rsplit("-", 1)
        wheels.append((name.replace("_", "-"), version))
        for file in sorted(path for path in info.glob("licenses/**/*") if path.is_file()):
            copy = documents / "licenses" / f"{name}-{file.name}"
            if copy.exists():
                binaries.fail(f"two licences of {name} are called {file.name}")
            shutil.copy(file, copy)
    if sbom.has_one_mkl(folder / "libexec/rekindle"):
        shutil.copy(ONE_MKL, documents / "licenses")
    sbom.write(documents / "sbom.cdx.json", packages, wheels, folder / "libexec/rekindle")


def main(build, folder):
    shutil.rmtree(folder, ignore_errors=True)
    programs = folder / "libexec/rekindle"
    of_torch = [TORCH / "torch/lib", TORCH / "nvidia/cu13/lib"]
    bundled = binaries.copy_programs(build, programs, PROGRAMS, of_torch)
    package = programs / "python/rekindle"
    binaries.copy_python_package(build, package)
    files = binaries.strip_and_check(programs, PROGRAMS, package)
    (folder / "bin").mkdir()
    (folder / "bin/rekindle").symlink_to("../libexec/rekindle/rekindle")
    write_texts(folder)
    write_documents(build, folder, bundled)
    examples = {file for file in (folder / "share/doc").rglob("*") if os.access(file, os.X_OK) and file.suffix in (".sh", ".py")}
    binaries.set_modes(folder, files | examples)


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
