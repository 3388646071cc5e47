#!/usr/bin/env python3
"""Makes the pictures of the documents, from real runs:

    tools/docs/pictures.py PATH_TO_REKINDLE [--only recovery|page]

docs/pictures/recovery.svg: a terminal in which a run loses a trainer, is stopped and goes on. docs/pictures/page.png: the
page of a run, which needs a python3 with playwright, and chromium.
"""

import argparse
import html
import json
import pathlib
import signal
import subprocess
import tempfile
import time

PICTURES = pathlib.Path(__file__).resolve().parents[2] / "docs/pictures"
LIMIT_S = 120
COLUMNS, LINE_PX, CHARACTER_PX, MARGIN_PX = 104, 18, 7.8, 14


def wait_for(what, found):
    end = time.monotonic() + LIMIT_S
    while not (value := found()):
        assert time.monotonic() < end, f"no {what} within {LIMIT_S} s"
        time.sleep(0.05)
    return value


def status_of(rekindle, run):
    shown = subprocess.run([rekindle, "status", run, "--json"], capture_output=True, text=True, check=False)
    return json.loads(shown.stdout) if shown.returncode == 0 else {}


def step_of(rekindle, run):
    return status_of(rekindle, run).get("step", 0)


class Terminal:
    """What a person would see: commands, and lines of their output. Each has the time since the beginning."""

    def __init__(self):
        self.began, self.lines = time.monotonic(), []

    def show(self, text, kind="output"):
        self.lines.append((time.monotonic() - self.began, kind, text[:COLUMNS]))

    def svg(self):
        height = len(self.lines) * LINE_PX + 2 * MARGIN_PX
        width = COLUMNS * CHARACTER_PX + 2 * MARGIN_PX
        rows = []
        for number, (at, kind, text) in enumerate(self.lines):
            y = MARGIN_PX + (number + 0.8) * LINE_PX
            rows.append(f'<text class="{kind}" x="{MARGIN_PX}" y="{y:.0f}" style="animation-delay:{at:.1f}s">'
                        f"{html.escape(text)}</text>")
        return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img"
  aria-label="A terminal: a run loses a trainer, is stopped, goes on, and has the digest of an undisturbed run">
<style>
  text {{ font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #d5dbe3; white-space: pre;
         animation: appear .01s both; }}
  .command {{ fill: #7ee0a2; font-weight: 600; }}
  .note {{ fill: #f2c46d; }}
  @keyframes appear {{ from {{ opacity: 0; }} to {{ opacity: 1; }} }}
  @media (prefers-reduced-motion: reduce) {{ text {{ animation: none; }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="#171c24"/>
{chr(10).join(rows)}
</svg>
"""


# Of the lines of a run, those that tell what happens.
TOLD = ("generation", "warning", "waiting", "finished", "stopped", "the run is complete", "checkpoint of step")


def recovery(rekindle, folder):
    subprocess.run([rekindle, "make-data", "mnist", folder / "digits", "--samples", "4000"], check=True, stdout=subprocess.DEVNULL)
    train = ["--model", "mnist-cnn", "--data", "digits", "--epochs", "2"]
    terminal = Terminal()

    def start(run, workers):
        command = ["rekindle", "local", "--run-dir", run, "--workers", workers, *train]
        terminal.show("$ " + " ".join(command), "command")
        return subprocess.Popen([rekindle, *command[1:]], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def show_rest(process, until=None):
        for line in process.stdout:
            text = line.rstrip()
            text = text.split("    rekindle: ")[-1]
            if text.startswith(TOLD):
                terminal.show("  " + text)
            if until and until(text):
                return
        process.wait()

    process = start("one", "2")
    show_rest(process, lambda text: text.startswith("generation"))
    wait_for("step", lambda: step_of(rekindle, folder / "one") >= 8)
    trainer = status_of(rekindle, folder / "one")["trainers"][1]["pid"]
    terminal.show(f"$ kill -9 {trainer}        # from another terminal: a trainer", "command")
    subprocess.run(["kill", "-9", str(trainer)], check=True)
    show_rest(process, lambda text: text.startswith("generation") and ".g2" in text)
    reached = step_of(rekindle, folder / "one")
    wait_for("steps", lambda: step_of(rekindle, folder / "one") >= reached + 5)
    terminal.show("$ rekindle stop one", "command")
    subprocess.run([rekindle, "stop", folder / "one"], check=True, stdout=subprocess.DEVNULL)
    show_rest(process)
    show_rest(start("one", "1"))
    terminal.show("$ rekindle digest one; rekindle digest undisturbed     # another run, of one worker", "command")
    show = subprocess.run([rekindle, "local", "--run-dir", "undisturbed", "--workers", "1", *train], cwd=folder, check=True,
                          capture_output=True)
    assert show.returncode == 0
    digests = [subprocess.run([rekindle, "digest", folder / run], check=True, capture_output=True, text=True).stdout.strip()
               for run in ("one", "undisturbed")]
    assert digests[0] == digests[1], digests
    for digest in digests:
        terminal.show("  " + digest)
    (PICTURES / "recovery.svg").write_text(terminal.svg())


def page(rekindle, folder):
    from playwright.sync_api import sync_playwright

    subprocess.run([rekindle, "make-data", "mnist", folder / "digits", "--samples", "4000"], check=True, stdout=subprocess.DEVNULL)
    run = folder / "mnist"
    process = subprocess.Popen([rekindle, "local", "--run-dir", run, "--workers", "3", "--model", "mnist-cnn", "--data", folder / "digits",
                                "--epochs", "6", "--checkpoint-every", "20", "--status-port", "0"], stdout=subprocess.DEVNULL)
    try:
        wait_for("step", lambda: step_of(rekindle, run) >= 40)
        victim = status_of(rekindle, run)["trainers"][1]["pid"]
        subprocess.run(["kill", "-9", str(victim)], check=True)
        wait_for("step", lambda: step_of(rekindle, run) >= 110)
        link = subprocess.run([rekindle, "status", run, "--link"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            shown = browser.new_page(viewport={"width": 1280, "height": 1000}, device_scale_factor=1)
            shown.goto(link)
            time.sleep(5)
            shown.screenshot(path=PICTURES / "page.png")
            browser.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rekindle", type=pathlib.Path)
    parser.add_argument("--only", choices=["recovery", "page"])
    options = parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    for make in (recovery, page):
        if options.only in (None, make.__name__):
            with tempfile.TemporaryDirectory() as folder:
                make(options.rekindle.resolve(), pathlib.Path(folder))


if __name__ == "__main__":
    main()
