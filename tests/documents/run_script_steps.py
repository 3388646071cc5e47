#!/usr/bin/env python3
"""Does "First steps with a script" of docs/python.md as a reader would: run_script_steps.py DOCUMENT FOLDER_OF_PROGRAMS.

The document's first script is train.py in an empty folder. At the end both runs must have the same digest. Exit code 77:
this Python has no torch or numpy.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SCRIPT = re.compile(r"<!-- test: first script -->\n```python\n(.*?)```", re.S)
STEPS = re.compile(r"^## First steps with a script\n.*?\n\n((?:    [^\n]*\n)+)", re.S | re.M)


def main():
    if not (importlib.util.find_spec("torch") and importlib.util.find_spec("numpy")):
        print("skipped: there is no torch or no numpy")
        sys.exit(1 if os.environ.get("REKINDLE_STRICT") else 77)
    text, programs = pathlib.Path(sys.argv[1]).read_text(), pathlib.Path(sys.argv[2]).resolve()
    # Another test may have a trainer with this word in its command line.
    steps = STEPS.search(text)[1].replace("killed", f"killed-{os.getpid()}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        (pathlib.Path(folder) / "train.py").write_text(SCRIPT.search(text)[1])
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "REKINDLE_PYTHON": sys.executable}
        # In a file: the document's pkill looks for a word that the command line of `bash -c` would have, too.
        shell = pathlib.Path(folder) / "steps.sh"
        shell.write_text("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nset -x\n" + steps)
        done = subprocess.run(["bash", shell], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    if done.returncode:
        sys.exit(f"run_script_steps: exit code {done.returncode}")
    digests = re.findall(r"^[0-9a-f]{16,}$", done.stdout, re.M)
    if len(digests) != 2 or digests[0] != digests[1]:
        sys.exit(f"run_script_steps: the digests are {digests}")
    if "killed by signal 9" not in done.stdout:
        sys.exit("run_script_steps: no trainer was killed")


if __name__ == "__main__":
    main()
