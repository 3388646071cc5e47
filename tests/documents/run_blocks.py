#!/usr/bin/env python3
"""Runs the code blocks of a document, as a reader would, one after the other.

    run_blocks.py DOCUMENT FOLDER_OF_PROGRAMS [FOLDER [NAME=PATH ...]]

Blocks in ```sh run in one shell, in FOLDER or the checkout, with a home folder of their own that has the links NAME; those
in ```python run by this Python, and a comment `# prints TEXT` says what the line prints. A block below
`<!-- not run: REASON -->` is left out. The first error ends it. Exit code 77: a block in Python needs a module that is
not there.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^(?:<!-- (?P<not_run>not run: [^\n]+) -->\n)?```(?P<kind>sh|python)\n(?P<text>.*?)^```$", re.M | re.S)


def run_python(text):
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    if "No module named 'numpy'" in done.stderr:
        print("skipped: there is no numpy")
        sys.exit(1 if os.environ.get("REKINDLE_STRICT") else 77)
    wanted = re.findall(r"# prints (.*)", text)
    if done.returncode or done.stdout.splitlines() != wanted:
        sys.exit(f"run_blocks: {text}\nprinted {done.stdout!r} in place of {wanted}\n{done.stderr}")


def run_shell(blocks, programs, folder, links):
    # A failed `test ... && echo TEXT` ends no shell, so each TEXT has to be printed.
    promised = sorted(re.findall(r"&& echo (.*)", "\n".join(blocks)))
    lines = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    for block in blocks:
        lines += ["set -x", block, "{ set +x; } 2>/dev/null"]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": home}
        for link in links:
            name, path = link.split("=", 1)
            (pathlib.Path(home) / name).symlink_to(path)
        # What setup keeps in a home folder.
        environment.setdefault("XDG_CACHE_HOME", str(pathlib.Path.home() / ".cache"))
        done = subprocess.run(["bash", "-c", "\n".join(lines)], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True,
                              check=False)
    print(done.stdout)
    if done.returncode:
        sys.exit(f"run_blocks: exit code {done.returncode}")
    printed = sorted(line for line in done.stdout.splitlines() if line in promised)
    if printed != promised:
        sys.exit(f"run_blocks: printed {printed} in place of {promised}")


def main():
    document, programs = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    folder = sys.argv[3] if len(sys.argv) > 3 else pathlib.Path(__file__).resolve().parents[2]
    shell, count = [], 0
    indented = re.search(r"^    (?:rekindle|\./dev) .*", document.read_text(), re.M)
    if document.name == "README.md" and indented:
        sys.exit(f"run_blocks: an indented block is not run: put it in a fence:\n{indented[0]}")
    for block in BLOCK.finditer(document.read_text()):
        if block["not_run"]:
            print(block["not_run"])
            continue
        count += 1
        if block["kind"] == "sh":
            shell.append(block["text"])
        else:
            run_python(block["text"])
    if shell:
        run_shell(shell, programs, folder, sys.argv[4:])
    if not count:
        sys.exit("run_blocks: there is no block")
    print(f"run_blocks: {count} blocks of {document.name} have run")


if __name__ == "__main__":
    main()
