#!/usr/bin/env python3
"""The made-up runs of browser/ have the fields, and their types, that the real server sends for a real run.

Otherwise the checks in the browser pass with fields that no real page gets, or lack those that it gets.

    tests/board/keys_test.py PATH_TO_REKINDLE
"""

import http.cookiejar
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent / "browser"))
import made_up  # noqa: E402
import stand_in  # noqa: E402
from waiting import LIMIT_S, wait_for  # noqa: E402

REKINDLE = pathlib.Path(sys.argv[1]).resolve()
# What a local run on processors cannot have.
ONLY_IN_SLURM, ONLY_WITH_GPU = {"time_limit"}, {"gpu", "gpu_used_bytes", "gpu_total_bytes", "gpu_busy_percent"}
# What only a run that has ended has.
ONLY_AT_THE_END = {"end"}
# What only a trainer has that the others wait for.
ONLY_IF_SLOW = {"slow"}
NOT_HERE = ONLY_IN_SLURM | ONLY_WITH_GPU | ONLY_IF_SLOW


def kind_of(value):
    if value is None:
        return None
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def joined(elements):
    """One object with the keys of all; a value that is known comes before null."""
    made = {}
    for element in elements:
        made.update({key: value for key, value in element.items() if value is not None or key not in made})
    return made


def faults_of(real, made, where):
    if isinstance(real, dict) and isinstance(made, dict):
        faults = [f"{where}.{key} is made up" for key in made.keys() - real.keys() - NOT_HERE]
        faults += [f"{where}.{key} is not made up" for key in real.keys() - made.keys() - ONLY_AT_THE_END]
        for key in made.keys() & real.keys():
            faults += faults_of(real[key], made[key], f"{where}.{key}")
        return faults
    if isinstance(real, list) and isinstance(made, list):
        if not real or not made:
            return [f"{where} is empty"]
        if isinstance(real[0], dict) and isinstance(made[0], dict):
            return faults_of(joined(real), joined(made), f"{where}[]")
        return faults_of(real[0], made[0], f"{where}[]")
    if None not in (real, made) and kind_of(real) != kind_of(made):
        return [f"{where} is {real!r}, made up is {made!r}"]
    return []


def opened(link):
    """A function that gets an address below the page of a link."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    opener.open(link, timeout=30).read()
    return lambda address: opener.open(link.split("?")[0] + address, timeout=30)


def page_of(run):
    def ask():
        answer = subprocess.run([REKINDLE, "status", run, "--link"], capture_output=True, text=True)
        return answer.stdout.split("\n")[0] if answer.returncode == 0 else ""

    return opened(wait_for("link", ask))


def summary_of(get, run):
    """When a trainer has been lost, and everything has happened that the made-up run has."""
    summary = lambda: json.load(get("api/summary"))
    trainers = wait_for("trainers", lambda: (t := summary().get("trainers", [])) and all(x["pid"] for x in t) and t)
    wait_for("checkpoint", lambda: summary()["checkpoints"])
    os.kill(trainers[0]["pid"], signal.SIGKILL)

    def complete():
        made = summary()
        known = made["step"] > 40 and made.get("training_ratio") and made.get("seconds_left") and made["step_ms"].keys() >= {"step", "checkpoint"}
        return made if known and made["recoveries"] > 1 and made["warnings"] and made["trainers"] else None

    return wait_for("recovery", complete)


def live_keys(get, wanted):
    """The keys of the events `status`, until all that are wanted have come."""
    seen, kind = set(), ""
    end = time.monotonic() + LIMIT_S
    for line in get("api/live"):
        key, _, value = line.decode().rstrip("\n").partition(": ")
        if key == "event":
            kind = value
        if key == "data" and kind == "status":
            seen |= json.loads(value).keys()
        if seen >= wanted or time.monotonic() > end:
            return seen
    return seen


def runs_of(folder):
    board = subprocess.Popen([REKINDLE, "board", folder, "--port", "0"], stdout=subprocess.PIPE, text=True,
                             env=dict(os.environ, XDG_STATE_HOME=str(folder / "state")))
    try:
        found = re.match(r"the page: (\S+)\?token=\.\.\. \(the secret is in (.*)\)", board.stdout.readline())
        token = pathlib.Path(found[2]).read_text().strip()
        return json.load(opened(f"{found[1]}?token={token}")("api/runs"))
    finally:
        board.terminate()
        board.wait()


def compare(folder, run):
    get = page_of(run)
    real = summary_of(get, run)
    made = made_up.make_run(hosts=1, lost=(1,), slow=(0,))
    faults = faults_of(real, made.summary(), "summary")
    for points in (20, 4000):  # means, and values
        curves = json.load(get(f"api/curves?names=loss&points={points}"))
        faults += faults_of(curves, made.curves_answer(["loss"], None, None, points), "curves")
    wanted = made.advance().keys()
    faults += [f"live.{key} is made up" for key in wanted - live_keys(get, wanted)]
    faults += faults_of(runs_of(folder), stand_in.StandIn(None, [made]).runs_answer(), "runs")
    # The comparison finds what it is for.
    without = {key: value for key, value in real.items() if key != "loss"}
    for planted in (faults_of(real, {**made.summary(), "units": {}}, ""), faults_of(real, without, ""),
                    faults_of(real, {**real, "step": "1"}, ""), faults_of(real, {**real, "lanes": [{"spans": 1}]}, "")):
        if not planted:
            raise SystemExit("keys_test: a difference was not found")
    return faults, len(real)


def main():
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = pathlib.Path(name)
        run = folder / "run"
        subprocess.run([REKINDLE, "make-data", "mnist", folder / "data", "--samples", "640"], check=True,
                       stdout=subprocess.DEVNULL)
        process = subprocess.Popen(
            [REKINDLE, "local", "--run-dir", run, "--data", folder / "data", "--model", "mnist-cnn", "--batch-size", "64",
             "--steps", "1000000", "--workers", "2", "--checkpoint-interval", "1s", "--device", "cpu", "--status-port", "0"],
            stdout=subprocess.DEVNULL)
        try:
            faults, count = compare(folder, run)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
    if faults:
        raise SystemExit("keys_test: " + "\n".join(sorted(faults)))
    print(f"keys_test: {count} fields of a summary, those below them, curves, events and runs are as made up")
    return 0


if __name__ == "__main__":
    sys.exit(main())
