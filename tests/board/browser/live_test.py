#!/usr/bin/env python3
"""A real run in a real browser: the page shows what metrics.jsonl and events.jsonl say, while a trainer, the coordinator
and the page's own server die.

    live_test.py PATH_TO_REKINDLE [--chromium PATH] [--shots FOLDER]
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from playwright.sync_api import sync_playwright

LIMIT_S = 120


def wait_for(what, found):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.2)
    raise SystemExit(f"live_test: no {what} within {LIMIT_S} s")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def processes(run, kind):
    """Pids of a run's processes of a kind."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            arguments = (entry / "cmdline").read_bytes().decode().split("\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if str(run) in arguments and any(kind in word for word in arguments[:2]):
            found.append(int(entry.name))
    return sorted(found)


class Watched:
    def __init__(self, rekindle, folder):
        self.rekindle, self.run = rekindle, folder / "run"
        subprocess.run([rekindle, "make-data", "mnist", folder / "data", "--samples", "640"], check=True, stdout=subprocess.DEVNULL)
        self.process = self.start(folder)

    def start(self, folder, port="0"):
        return subprocess.Popen(
            [self.rekindle, "local", "--run-dir", self.run, "--data", folder / "data", "--model", "mnist-cnn", "--batch-size", "64",
             "--steps", "1000000", "--workers", "2", "--checkpoint-interval", "3s", "--status-port", port],
            stdout=subprocess.DEVNULL)

    def link(self):
        def ask():
            answer = subprocess.run([self.rekindle, "status", self.run, "--link"], capture_output=True, text=True)
            return answer.stdout.split("\n")[0] if answer.returncode == 0 else ""
        return wait_for("link", ask)

    def steps(self):
        return {line["step"]: line["loss"] for line in lines(self.run / "metrics.jsonl") if "loss" in line}

    def events(self, kind):
        return [line for line in lines(self.run / "events.jsonl") if line["event"] == kind]


def check(watched, page):
    plotted = lambda: page.evaluate("window.rekindle.plotted")
    wait_for("curve", lambda: "loss" in plotted()["curves"] and len(plotted()["curves"]["loss"].get("value", [])) > 5)
    os.kill(processes(watched.run, "rekindle-trainer")[0], signal.SIGKILL)
    wait_for("lane that ended", lambda: any(lane["end"] for lane in plotted()["lanes"]))
    wait_for("lane of the trainer in its place", lambda: len(plotted()["lanes"]) >= 3)
    [coordinator] = processes(watched.run, "coordinator")
    os.kill(coordinator, signal.SIGKILL)
    wait_for("recovery of the coordinator", lambda: any(e["cause"] == "coordinator" for e in watched.events("recovered")))
    before = max(watched.steps())
    newest = lambda: plotted()["curves"]["loss"]["value"][-1][0]
    wait_for("steps on the page after the coordinator's death", lambda: newest() > before + 5)
    # What is drawn is what is on record.
    record = watched.steps()
    for step, value in plotted()["curves"]["loss"]["value"]:
        if step in record and abs(value - record[step]) > 1e-4 * max(1, abs(record[step])):
            raise SystemExit(f"live_test: step {step} is drawn at {value}, and is {record[step]}")
    lost = {event["trainer"] for event in watched.events("lost")}
    ended = {lane["trainer"] for lane in plotted()["lanes"] if lane["end"]}
    if lost != ended:
        raise SystemExit(f"live_test: lost {lost}, drawn as lost {ended}")
    return len(plotted()["curves"]["loss"]["value"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rekindle", type=pathlib.Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--shots", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name, sync_playwright() as playwright:
        folder = pathlib.Path(name)
        watched = Watched(options.rekindle.resolve(), folder)
        try:
            browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 360, "height": 800})
            errors = []
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
            page.goto(watched.link())
            values = check(watched, page)
            sizes = page.evaluate("[innerWidth, document.documentElement.scrollWidth]")
            if sizes[0] != 360 or sizes[1] > 360 or errors:
                raise SystemExit(f"live_test: widths {sizes}, errors {errors}")
            if "token=" in page.url:
                raise SystemExit("live_test: the secret is still in the address")
            if options.shots:
                page.screenshot(path=options.shots / "live-360.png", full_page=True)
            print(f"live_test: {values} values of a run with two deaths are as on record")
            browser.close()
        finally:
            watched.process.send_signal(signal.SIGINT)
            watched.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
