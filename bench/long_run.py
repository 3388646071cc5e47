#!/usr/bin/env python3
"""What the page of a very long run costs: writes a made-up run directory, and asks for its page.

    bench/long_run.py FOLDER [--rekindle build/release/bin/rekindle] [--steps 1000000] [--attempts 200] [--trainers 64]

Without --rekindle the directory is only written. With it, prints the time of the first api/summary, of four curves, and of
both again, and the bytes of each and of the page as one file.
"""

import argparse
import datetime
import http.cookiejar
import json
import math
import os
import pathlib
import re
import subprocess
import time
import urllib.request

STEP_S, PAUSE_S, EVALUATED_EACH, SAVED_EACH = 2.0, 900.0, 1000, 250
CURVES = "loss,accuracy,images_per_second,step_ms"


class Clock:
    """The time of the run: steps take time, and a requeue does."""

    def __init__(self, seconds):
        self.at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)

    def wait(self, seconds):
        self.at += datetime.timedelta(seconds=seconds)

    def text(self):
        return self.at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.at.microsecond // 1000:03}Z"


def members(attempt, trainers):
    return [{"trainer": f"w{n // 8}-{attempt:08x}.{n % 8}-1", "worker": f"w{n // 8}-{attempt:08x}", "host": f"n{n // 8 + 1}",
             "device": f"cuda:{n % 8}", "gpu": "NVIDIA H200"} for n in range(trainers)]


def metrics_line(step, attempt, trainers, clock):
    noise = math.sin(step * 12.9898) * 43758.5453 % 1 - 0.5
    ms = STEP_S * 1000 * (1 + noise / 50)
    return {"accuracy": round(1 - math.exp(-step / 3e5) + noise / 100, 9), "at": clock.text()[:19] + "Z", "attempt": attempt,
            "checkpoint_ms": round(abs(noise), 6), "compute_ms": ms * 0.6, "data_ms": ms * 0.001, "epoch": step // 5000,
            "exchange_ms": ms * 0.3, "generation": f"t{attempt}.g1", "images_per_second": 16384 / ms * 1000,
            "loss": 7 * math.exp(-step / 2e5) + 0.3 + noise / 10, "lr": 0.1, "step": step, "step_ms": ms, "trainers": trainers,
            "update_ms": ms * 0.09}


def write_attempt(attempt, steps, trainers, clock, metrics, events):
    begin, end = steps
    add = lambda kind, step, **more: events.write(
        json.dumps({"at": clock.text(), "attempt": attempt, "event": kind, "step": step, **more}) + "\n")
    add("started", begin, host="n1", term=attempt, job=str(4000 + attempt))
    all_trainers = members(attempt, trainers)
    add("generation", begin, generation=f"t{attempt}.g1", trainers=trainers, members=all_trainers)
    for step in range(begin + 1, end + 1):
        clock.wait(STEP_S)
        metrics.write(json.dumps(metrics_line(step, attempt, trainers, clock), separators=(",", ":")) + "\n")
        if step % SAVED_EACH == 0:
            add("saved", step, checkpoint=f"step-{step:010}.t{attempt}.g1", bytes=531_000_000)
        if step % EVALUATED_EACH == 0:
            test = {"test_loss": 7 * math.exp(-step / 2e5) + 0.4, "test_accuracy": 1 - math.exp(-step / 3e5), "test_count": 50000}
            metrics.write(json.dumps({"at": clock.text(), "attempt": attempt, "step": step, **test}, separators=(",", ":")) + "\n")
            add("evaluated", step, **test)
    lost = all_trainers[attempt % trainers]
    add("lost", end, trainer=lost["trainer"], host=lost["host"], why="killed by signal 9")
    clock.wait(1)
    add("recovered", end, generation=f"t{attempt}.g2", trainers=trainers - 1, before=trainers, seconds=0.4, cause="lost")
    add("stopped", end, why="the job reaches its time limit", exit_code=75)
    clock.wait(PAUSE_S)


def write_run(folder, options):
    folder.mkdir(parents=True)
    clock = Clock(options.steps * STEP_S + options.attempts * (PAUSE_S + 1))
    with open(folder / "metrics.jsonl", "w") as metrics, open(folder / "events.jsonl", "w") as events:
        for attempt in range(1, options.attempts + 1):
            edges = [options.steps * (attempt + n) // options.attempts for n in (-1, 0)]
            write_attempt(attempt, edges, options.trainers, clock, metrics, events)
    (folder / "run.toml").write_text("")
    trainers = [{"trainer": one["trainer"], "host": one["host"], "device": one["device"], "rank": rank, "pid": 1000 + rank,
                 "phase": "computing", "step": options.steps, "memory_bytes": 1_340_000_000, "peak_pss_bytes": 1_370_000_000}
                for rank, one in enumerate(members(options.attempts, options.trainers))]
    (folder / "status.json").write_text(json.dumps(
        {"state": "saved", "attempt": options.attempts, "term": options.attempts, "step": options.steps,
         "steps": options.steps * 6 // 5, "epoch": options.steps // 5000, "loss": 0.35, "voided_steps": 0, "updated": clock.text(),
         "trainers": trainers}))


def serve(rekindle, folder, state):
    """A board of the folder: its process, its address and its token."""
    board = subprocess.Popen([rekindle, "board", folder, "--port", "0"], stdout=subprocess.PIPE, text=True,
                             env=dict(os.environ, XDG_STATE_HOME=str(state)))
    page, token = re.match(r"the page: (\S+)\?token=\.\.\. \(the secret is in (.*)\)", board.stdout.readline()).groups()
    return board, page, pathlib.Path(token).read_text().strip()


def measure(rekindle, folder):
    board, page, token = serve(rekindle, folder, folder.parent / "state-of-the-board")
    try:
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        opener.open(f"{page}?token={token}").read()
        for turn in ("first", "then"):
            for address in ("api/summary", f"api/curves?names={CURVES}&points=1000"):
                begin = time.monotonic()
                size = len(opener.open(page + address).read())
                print(f"{turn}: {address.split('?')[0]} {time.monotonic() - begin:.2f} s, {size} bytes")
    finally:
        board.terminate()
        board.wait()
    file = folder.parent / "page-of-the-run.html"
    begin = time.monotonic()
    subprocess.run([rekindle, "status", folder, "--html", file], check=True)
    print(f"one file: {time.monotonic() - begin:.2f} s, {file.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path, help="is made")
    parser.add_argument("--rekindle", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--attempts", type=int, default=200)
    parser.add_argument("--trainers", type=int, default=64)
    options = parser.parse_args()
    folder = options.folder.resolve()
    write_run(folder, options)
    print(f"{folder}: {(folder / 'metrics.jsonl').stat().st_size} bytes of metrics.jsonl")
    if options.rekindle:
        measure(options.rekindle.resolve(), folder)


if __name__ == "__main__":
    main()
