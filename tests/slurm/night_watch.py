#!/usr/bin/env python3
"""A board, a page, a Prometheus and a TensorBoard watch a run over its requeues; at the end of the input, what they saw is
compared with the run's records.

    night_watch.py PATH_TO_REKINDLE SOURCE_FOLDER FOLDER_OF_RUNS SCRATCH        (the run is FOLDER_OF_RUNS/run)
"""

import http.cookiejar
import json
import math
import pathlib
import re
import sys
import threading
import time
import urllib.request

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tb_logging

BOARD = pathlib.Path(__file__).resolve().parents[1] / "board"
sys.path[:0] = [str(BOARD), str(BOARD / "browser")]

from real_board import Board  # noqa: E402
from real_prometheus import Prometheus  # noqa: E402
from waiting import wait_for  # noqa: E402

REKINDLE, SOURCE, RUNS, SCRATCH = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
RUN = RUNS / "run"
TOKEN = "a-token-for-the-metrics-of-a-night"


def lines_of(name):
    return [json.loads(line) for line in (RUN / name).read_text().splitlines()]


def losses_on_record():
    return {line["step"]: line["loss"] for line in lines_of("metrics.jsonl") if "loss" in line}


class Page(threading.Thread):
    """What a browser has of the run: the curve at first, and then only what comes by itself."""

    def __init__(self, address, token):
        super().__init__(daemon=True)
        self.address = address
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        self.opener.open(f"{address}/?token={token}", timeout=30).read()
        self.losses, self.connections, self.rewinds, self.limits = {}, 0, 0, set()

    def get(self, path):
        return json.load(self.opener.open(f"{self.address}/run/run/{path}", timeout=30))

    def run(self):
        while True:
            try:
                self.follow()
            except OSError:  # at first there is no such run
                time.sleep(0.5)

    def follow(self):
        with self.opener.open(f"{self.address}/run/run/api/live", timeout=60) as stream:
            self.losses = dict(zip(*self.curve()))
            self.connections += 1
            kind = ""
            for raw in stream:
                line = raw.decode().rstrip("\n")
                if line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    self.on_event(kind, json.loads(line[6:]))

    def curve(self):
        curve = self.get("api/curves?names=loss&points=4096")["curves"].get("loss", {"step": [], "value": []})
        return curve["step"], curve["value"]

    def on_event(self, kind, data):
        if kind == "rewound":
            self.rewinds += 1
            self.losses = {step: loss for step, loss in self.losses.items() if step <= data["step"]}
        elif kind == "changed":
            self.limits.add(self.get("api/summary").get("time_limit"))
        for step, loss in data.get("points", {}).get("loss", []):
            self.losses[step] = loss


class States(threading.Thread):
    """What the board's list of runs says of the run, all the time."""

    def __init__(self, page):
        super().__init__(daemon=True)
        self.page, self.seen = page, set()

    def run(self):
        while True:
            runs = json.load(self.page.opener.open(f"{self.page.address}/api/runs", timeout=30))["runs"]
            self.seen |= {run["state"] for run in runs}
            time.sleep(0.3)


class TensorBoard(threading.Thread):
    """An accumulator that lives all the time."""

    def __init__(self):
        super().__init__(daemon=True)
        tb_logging.get_logger().setLevel("ERROR")
        self.lock = threading.Lock()
        self.inner = event_accumulator.EventAccumulator(str(RUN / "tensorboard"), size_guidance={"scalars": 0})

    def run(self):
        while True:
            self.steps()
            time.sleep(1)

    def steps(self):
        with self.lock:
            if (RUN / "tensorboard").exists():
                self.inner.Reload()
            return [item.step for item in self.inner.Scalars("loss")] if "loss" in self.inner.Tags()["scalars"] else []


def same(shown, wanted):
    """The page gets six digits of each value."""
    return shown.keys() == wanted.keys() and all(math.isclose(shown[step], wanted[step], rel_tol=1e-5) for step in wanted)


def check_page(page):
    wanted = losses_on_record()
    wait_for("page that is up to date", lambda: same(page.losses, wanted))
    assert page.connections == 1, f"the page had to connect {page.connections} times"
    summary = page.get("api/summary")
    assert len(summary["attempts"]) >= 6, summary["attempts"]
    assert all(attempt["pending_seconds"] is not None for attempt in summary["attempts"][1:]), summary["attempts"]
    assert any(page.limits), page.limits
    told = lambda events: [event["at"] for event in events if event["event"] == "recovered"]
    record = lines_of("events.jsonl")[-len(summary["events"]) :]
    assert told(summary["events"]) == told(record), (summary["events"], record)
    print(f"page: {len(wanted)} steps, {len(summary['attempts'])} attempts, {page.rewinds} rewinds seen, one connection")


def check_prometheus(prometheus, elapsed, events):
    assert prometheus.query('min_over_time(up{job="rekindle"}[2h])') == [1.0], "a scrape failed"
    scrapes = prometheus.query('count_over_time(up{job="rekindle"}[2h])')[0]
    assert scrapes > 0.9 * elapsed - 5, f"{scrapes} scrapes in {elapsed} s"
    names = prometheus.query("count({__name__=~'rekindle_.*_total'})")
    assert names and names[0] > 3, names
    for name in ("rekindle_steps_total", "rekindle_recoveries_total", "rekindle_attempts_total", "rekindle_requeues_total",
                 "rekindle_checkpoint_write_bytes_total", "rekindle_step_duration_seconds_count"):
        resets = prometheus.query(f'resets({name}{{run="run"}}[2h])')
        assert resets and not any(resets), (name, resets)
    recovered = sum(event["event"] == "recovered" for event in events)
    for name, wanted in (("rekindle_requeues_total", 5.0), ("rekindle_recoveries_total", float(recovered)),
                         ("rekindle_step", float(max(losses_on_record())))):
        query = f'sum({name}{{run="run"}}) or vector(0)'
        wait_for(f"{name} of {wanted}, {prometheus.query(query)}", lambda q=query, w=wanted: prometheus.query(q) == [w])
    queries = prometheus.check_dashboard("run")
    print(f"prometheus: {int(scrapes)} scrapes in {elapsed:.0f} s, none failed, no counter fell, {recovered} recoveries, "
          f"{queries} queries of the dashboard have values")


def check_recoveries(events):
    """Each is told once: with a generation that took the place of another one of its attempt."""
    attempts, later = set(), []
    for event in events:
        if event["event"] == "generation":
            if event["attempt"] in attempts:
                later.append(event["generation"])
            attempts.add(event["attempt"])
    told = [event for event in events if event["event"] == "recovered" and event["cause"] != "coordinator"]
    generations = [event["generation"] for event in told]
    assert len(set(generations)) == len(generations) and set(generations) <= set(later), (generations, later)
    assert any(event["cause"] == "lost" for event in told), told


def main():
    (SCRATCH / "token").write_text(TOKEN)
    (SCRATCH / "token").chmod(0o600)
    board = Board(REKINDLE, RUNS, SCRATCH)
    processes = [board.process]
    try:
        address = f"http://127.0.0.1:{board.page_port}"  # the token is there before the board listens
        token = (SCRATCH / "state/rekindle/board-token").read_text().strip()
        page, tensorboard = Page(address, token), TensorBoard()
        states = States(Page(address, token))
        prometheus, began = Prometheus(SOURCE, SCRATCH, board.metrics_port), time.monotonic()
        processes.append(prometheus.process)
        page.start()
        states.start()
        tensorboard.start()
        print("watching", flush=True)
        sys.stdin.read()
        events = lines_of("events.jsonl")
        kinds = [event["event"] for event in events]
        assert kinds.count("requeued") == 5, kinds
        check_recoveries(events)
        steps = [line["step"] for line in lines_of("metrics.jsonl") if "loss" in line]
        assert steps == list(range(1, len(steps) + 1)), steps
        check_page(page)
        assert {"pending", "running"} <= states.seen, states.seen
        check_prometheus(prometheus, time.monotonic() - began, events)
        # The job's; what was finished afterwards had no --tensorboard.
        of_the_job = steps[: [event["step"] for event in events if event["event"] == "stopped"][-1]]
        wait_for("TensorBoard that is up to date", lambda: tensorboard.steps() == of_the_job)
        print(f"tensorboard: {len(of_the_job)} steps, each once")
        status = pathlib.Path(f"/proc/{board.process.pid}/status").read_text()
        print("board:", re.search(r"VmHWM:\s*(.*)", status).group(1))
    finally:
        for process in processes:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
