#!/usr/bin/env python3
"""What the page costs the process that serves it, and how soon a browser shows it.

    bench/page_cost.py build/release/bin/rekindle RUN_DIR [--seconds 60] [--step 2] [--chromium PATH]

RUN_DIR is a finished run, or one that bench/long_run.py made up. A board of it is opened in real Chromium (Playwright for
Python) three times while a line is added to the run's metrics.jsonl every --step seconds, as a live run would. Prints the
first paint of each page and when its curves are drawn, the bytes that it was sent, and the processor time and the highest
memory of the serving process.
"""

import argparse
import json
import os
import pathlib
import re
import tempfile
import time

from long_run import serve
from playwright.sync_api import sync_playwright

PAGES, LIMIT_S = 3, 60


def processor_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid, name):
    return int(re.search(rf"{name}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024 / 1e6


class OpenPage:
    def __init__(self, browser, address):
        self.page, self.answered = browser.new_context(viewport={"width": 1400, "height": 900}).new_page(), 0
        network = self.page.context.new_cdp_session(self.page)
        network.send("Network.enable")
        network.on("Network.loadingFinished", lambda answer: self.count(answer["encodedDataLength"]))
        begin = time.monotonic()
        self.page.goto(address, wait_until="commit")
        self.page.wait_for_url(lambda url: "token=" not in url, wait_until="commit")
        while not self.page.evaluate("Boolean(window.rekindle?.plotted?.curves?.loss)"):
            if time.monotonic() > begin + LIMIT_S:
                raise SystemExit("page_cost: no curve")
            self.page.wait_for_timeout(20)
        self.curves_s = time.monotonic() - begin
        self.page.wait_for_timeout(500)

    def count(self, size):
        self.answered += size

    def first_paint_s(self):
        return self.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000")


def served_by(board):
    """The process that serves, which the command has become or has started."""
    children = pathlib.Path(f"/proc/{board.pid}/task/{board.pid}/children").read_text().split()
    return int(children[0]) if children else board.pid


def train(run, options, seconds, pages):
    """Adds steps to the record for some seconds, while the pages are open."""
    record = run / "metrics.jsonl"
    with open(record, "rb") as file:
        file.seek(-4096, os.SEEK_END)
        last = [line for line in map(json.loads, file.read().splitlines()[1:]) if "step_ms" in line][-1]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        last["step"] += 1
        with open(record, "a") as file:
            file.write(json.dumps(last, separators=(",", ":")) + "\n")
        for page in pages:
            page.page.wait_for_timeout(options.step * 1000 / len(pages))


def measure(options, playwright, state):
    run = options.run.resolve()
    board, page, token = serve(options.rekindle.resolve(), run, state)
    try:
        pid = served_by(board)
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        browser.new_page().goto("about:blank")
        pages = []
        for number in range(PAGES):
            pages.append(OpenPage(browser, f"{page}?token={token}"))
            print(f"page {number + 1}: first paint after {pages[-1].first_paint_s():.2f} s, curves after {pages[-1].curves_s:.2f} s, "
                  f"{pages[-1].answered} bytes", flush=True)
        train(run, options, 5, pages)
        before, begin = processor_s(pid), time.monotonic()
        train(run, options, options.seconds, pages)
        elapsed = time.monotonic() - begin
        print(f"{PAGES} pages open for {elapsed:.0f} s, a step each {options.step} s: "
              f"{100 * (processor_s(pid) - before) / elapsed:.2f} % of a core, "
              f"memory {memory_mb(pid, 'VmRSS'):.0f} MB, at most {memory_mb(pid, 'VmHWM'):.0f} MB")
    finally:
        board.terminate()
        board.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rekindle", type=pathlib.Path)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--step", type=float, default=2)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as state, sync_playwright() as playwright:
        measure(options, playwright, state)


if __name__ == "__main__":
    main()
