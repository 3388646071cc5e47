#!/usr/bin/env python3
"""A real run in a real browser: every curve and every lane is what metrics.jsonl and events.jsonl say, while a trainer, the
coordinator and the page's own server die, and when the next attempt serves the page again. Pages of other sites in this
browser get nothing of the run.

    live_test.py PATH_TO_REKINDLE [--chromium PATH] [--shots FOLDER]

--shots also makes four pictures of the page at the end: 360 and 1400 pixels wide, light and dark.
"""

import argparse
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import other_site
import real_server
from on_record import compare_curves, lines, points_of
from playwright.sync_api import sync_playwright
from real_server import open_link
from waiting import wait_for


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

    def metrics(self):
        """{name: {step: value}} of the whole record."""
        found = {}
        for line in lines(self.run / "metrics.jsonl"):
            for name, value in line.items():
                if name != "step" and isinstance(value, (int, float)) and math.isfinite(value):
                    found.setdefault(name, {})[line["step"]] = value
        return found

    def events(self, kind):
        return [line for line in lines(self.run / "events.jsonl") if line["event"] == kind]


def plotted(page):
    return page.evaluate("window.rekindle.plotted")


def newest(page):
    curve = plotted(page)["curves"]["loss"]
    return curve.get("value", curve.get("mean"))[-1][0]


def compare_lanes(lanes, watched):
    """A lane for each trainer that ever was in a generation, and its end is that of its event."""
    joined = {trainer["trainer"] for event in watched.events("generation")
              for trainer in event.get("members", []) + event.get("joined", [])}
    lost = {event["trainer"]: event["why"] for event in watched.events("lost")}
    drawn = {lane["trainer"]: lane["end"] for lane in lanes}
    wanted = {name: lost.get(name) for name in joined}
    if drawn != wanted or len(lanes) != len(drawn):
        raise SystemExit(f"live_test: lanes {drawn}, on record {wanted}")
    if bad := [lane for lane in lanes if not lane["spans"]]:
        raise SystemExit(f"live_test: lanes without a bar: {bad}")


def compare(watched, page):
    """What is drawn is what is on record: the record is read after the page, so it has all that is drawn."""
    drawn = plotted(page)
    if len(drawn["curves"]) < 4:
        raise SystemExit(f"live_test: only {list(drawn['curves'])} are drawn")
    record = watched.metrics()
    count = compare_curves(drawn["curves"], record)
    compare_lanes(drawn["lanes"], watched)
    # The comparison finds a value that differs, and a step that is not drawn.
    loss = drawn["curves"]["loss"]
    step = next(iter(points_of(loss)))[1]
    fewer = {part: rows[1:2] + rows[3:] for part, rows in loss.items()}
    for curves, values in ((drawn["curves"], {**record["loss"], step: -9}), ({"loss": fewer}, record["loss"])):
        try:
            compare_curves(curves, {**record, "loss": values})
        except SystemExit:
            continue
        raise SystemExit("live_test: a difference was not found")
    return count


def check(watched, page):
    wait_for("curve", lambda: "loss" in plotted(page)["curves"] and newest(page) > 5)
    os.kill(processes(watched.run, "rekindle-trainer")[0], signal.SIGKILL)
    wait_for("lane that ended", lambda: any(lane["end"] for lane in plotted(page)["lanes"]))
    wait_for("lane of the trainer in its place", lambda: len(plotted(page)["lanes"]) >= 3)
    [coordinator] = processes(watched.run, "coordinator")
    os.kill(coordinator, signal.SIGKILL)
    wait_for("recovery of the coordinator", lambda: any(e["cause"] == "coordinator" for e in watched.events("recovered")))
    before = max(watched.metrics()["loss"])
    wait_for("steps on the page after the coordinator's death", lambda: newest(page) > before + 5)
    return compare(watched, page)


def check_without_server(watched, page, folder):
    """The page's server dies: the page says so and keeps what it has. The next attempt serves the page at its port."""
    port = page.url.split(":")[2].split("/")[0]
    [server] = processes(watched.run, "rekindle-board")
    os.kill(server, signal.SIGKILL)
    wait_for("note of the lost connection", lambda: page.evaluate("document.body.dataset.connection") == "lost")
    last = newest(page)
    wait_for("step of the run without its page", lambda: max(watched.metrics()["loss"]) > last + 3)
    values = compare(watched, page)
    watched.process.send_signal(signal.SIGINT)
    watched.process.wait()
    watched.process = watched.start(folder, port)
    wait_for("connection to the next attempt", lambda: page.evaluate("document.body.dataset.connection") == "live")
    wait_for("lane of the next attempt", lambda: any(lane["attempt"] == 2 for lane in plotted(page)["lanes"]))
    before = max(watched.metrics()["loss"])
    wait_for("steps of the next attempt", lambda: newest(page) > before + 5)
    return values + compare(watched, page)


def check_link_on_another_site(browser, link):
    """As in a chat or in a web terminal: the browser takes the whole way for the other site's."""
    other = other_site.start()
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://localhost:{other.server_port}/")
    page.evaluate("(link) => { const a = document.createElement('a'); a.href = link; document.body.append(a); a.click(); }", link)
    page.wait_for_url(lambda url: "token=" not in url and str(other.server_port) not in url)
    wait_for("curve of a page from a link", lambda: "loss" in plotted(page)["curves"])
    context.close()
    other.shutdown()
    other.server_close()


def check_other_sites(page):
    if page.evaluate("fetch('api/summary').then((answer) => answer.status)") != 200:
        raise SystemExit("live_test: the page itself does not get its summary")
    if found := other_site.check(page.context, page.evaluate("location.origin + location.pathname")):
        raise SystemExit(f"live_test: {found}")


def take_pictures(browser, link, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for width, height in ((360, 800), (1400, 900)):
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            open_link(page, link)
            wait_for("curve", lambda page=page: "loss" in plotted(page)["curves"])
            page.screenshot(path=folder / f"live-{width}-{scheme}.png", full_page=True)
            page.close()


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
            page = browser.new_context(viewport={"width": 360, "height": 800}).new_page()
            errors = []
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
            open_link(page, watched.link())
            values = check(watched, page)
            values += check_without_server(watched, page, folder)
            sizes = page.evaluate("[innerWidth, document.documentElement.scrollWidth]")
            if sizes[0] != 360 or sizes[1] > 360 or errors:
                raise SystemExit(f"live_test: widths {sizes}, errors {errors}")
            if "token=" in page.url:
                raise SystemExit("live_test: the secret is still in the address")
            real_server.check_zoom(page, watched.metrics)
            real_server.check_board_restarts(browser, options.rekindle.resolve(), folder)
            check_other_sites(page)
            check_link_on_another_site(browser, watched.link())
            if options.shots:
                take_pictures(browser, watched.link(), options.shots)
            print(f"live_test: {values} values of a run with three deaths and two attempts are as on record")
            browser.close()
        finally:
            watched.process.send_signal(signal.SIGINT)
            watched.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
