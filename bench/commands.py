"""What the measurements share: commands that have to succeed, and figures in a file. Standard library only."""
import json
import os
import pathlib
import platform
import subprocess
import sys
import time


def must(command, **kwargs):
    """The output of a command; ends this program if the command fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def machine():
    """The conditions that figures belong to."""
    cpu = platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(": ")[2]
            break
    return {"cpu": cpu, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1),
            "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


class Record:
    """The turns and figures of a measurement as a file of JSON. Without a path, nothing is written.

    The file is written after each turn, so that the turns are kept if a later one fails.
    """

    def __init__(self, path, conditions):
        self._path = path and pathlib.Path(path)
        self._content = {"arguments": sys.argv[1:], "machine": machine(), **conditions, "turns": [], "rows": []}
        self._write()  # an unusable path is an error now, not after the first turn

    def add_turn(self, **turn):
        self._content["turns"].append(turn)
        self._write()

    def add_rows(self, rows):
        """`rows`: of class pairs.Row."""
        self._content["rows"] += [row.as_json() for row in rows]
        self._write()

    def _write(self):
        if self._path:
            beside = self._path.with_name(self._path.name + ".new")
            try:
                beside.write_text(json.dumps(self._content, indent=1) + "\n")
                beside.replace(self._path)
            except OSError as error:
                sys.exit(f"bench: {self._path} cannot be written: {error.strerror}")
