"""Checks the page in a browser with the stand-in server: page_test.py --chromium /usr/bin/chromium

Needs the packages playwright and axe-playwright-python. One line for each check; the exit code is 1 if one fails. With
--planted, defects are put into the page, and each must make its check fail.
"""

import argparse
import sys

from playwright.sync_api import Error

import checks_of_board
import checks_of_drawing
import checks_of_form
import checks_of_life
from browsing import Browser, Failed

CHECKS = [*checks_of_form.CHECKS, *checks_of_drawing.CHECKS, *checks_of_life.CHECKS, *checks_of_board.CHECKS]

# (check, file, text in it, text in its place)
PLANTED = [
    ("narrow", "page.css", "details > summary {", "body { min-width: 380px; } details > summary {"),
    ("accessible", "page.css", "--muted: #59636e", "--muted: #a9b3be"),
    ("accessible", "list_table.js", 'role: "columnheader"', 'role: "nonsense"'),
    (
        "hostile",
        "list_table.js",
        "node.append(String(wanted.text ?? text.kNone));",
        "node.innerHTML = String(wanted.text);",
    ),
    (
        "hostile",
        "page.js",
        "function show_quick() {",
        "function show_quick() { by_id('notice').innerHTML = summary.problem;",
    ),
    (
        "curves_drawn",
        "panels.js",
        "value: curves.middle_of(curve)",
        "value: curves.smoothed(curves.middle_of(curve), 0.1)",
    ),
    ("curves_drawn", "curves.js", "values[place.get(step)]", "values[place.get(step) - 1]"),
    (
        "lanes_drawn",
        "lanes.js",
        "const width = Math.max(0, this.place(to_ms) - left);",
        "const width = this.place(to_ms);",
    ),
    (
        "lanes_drawn",
        "lanes.js",
        "row.to_ms <= from_ms);",
        "row.to_ms <= from_ms || true).slice(0, 1); lane.end = null;",
    ),
    ("zoom", "panels.js", "range = `&from=${from}&to=${to}`;", ""),
    ("hover", "plot.js", "setCursor: [() => this.update_readout()],", ""),
    ("hover", "plot.js", "text.number(line.value[index])", "text.number(line.value[index + 1])"),
    ("cells", "tables.js", "text.bytes(trainer.memory_bytes),", "text.bytes(trainer.peak_pss_bytes),"),
    ("cells", "tables.js", "Math.round(trainer.cpu_percent)", "Math.round(trainer.gpu_busy_percent)"),
    ("cells", "tables.js", "text: text.ago(at, now_ms)", "text: text.ago(now_ms, now_ms)"),
    ("cells", "overview.js", "until_limit > 0 ? text.seconds(until_limit)", "until_limit > 0 ? text.seconds(left)"),
    ("cells", "overview.js", "const early = limit !== null &&", "const early = false &&"),
    ("keys", "plot.js", "ArrowLeft: at - stride", "ArrowLeft: at"),
    ("live", "curves.js", "curve.step.push(step);", "curve.step.push(step + 1);"),
    ("live", "panels.js", "for (const curve of Object.values(this.answer.curves)) curves.rewind(curve, step);", ""),
    ("reconnects", "live.js", "this.later(this.run, retry_ms, () => this.start());", ""),
    ("hidden_tab", "live.js", "(document.hidden ? this.pause() : this.start())", "this.start()"),
    ("denied", "page.js", "Open the link again", "Sorry"),
    (
        "polls",
        "live.js",
        "await this.poll();\n        } catch (error) {\n          if (run === this.run) this.fail(error);\n          return;\n        }\n        if (run === this.run && !this.streams)",
        "} catch {}\n        if (run === this.run)",
    ),
    ("board", "board.js", "order(a) - order(b) ||", ""),
    ("behind_a_folder", "board.js", 'get("api/runs")', 'get("/api/runs")'),
    ("behind_a_folder", "live.js", 'new EventSource("api/live")', 'new EventSource("/api/live")'),
]


def run_check(browser, name, check):
    try:
        print(f"ok      {name}: {check(browser)}", flush=True)
        return True
    except (Failed, Error) as failure:
        print(f"FAILED  {name}: {failure}", flush=True)
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--only", help="the name of one check")
    parser.add_argument("--planted", action="store_true", help="each planted defect must be found")
    options = parser.parse_args()
    checks = {check.__name__: check for check in CHECKS}
    passed = failed = 0
    with Browser(options.chromium) as browser:
        if options.planted:
            for name, file, old, new in PLANTED:
                if options.only not in (None, name):
                    continue
                browser.changes = {file: (old, new)}
                browser.patience_ms = 6000
                try:
                    words = f"{name} says of a page without its defect in {file}: {checks[name](browser)}"
                    failed += 1
                except (Failed, Error) as failure:
                    words = f"found   {name}, {file}: {str(failure)[:140]}"
                    passed += 1
                print(words, flush=True)
                browser.close_pages()
        else:
            for name, check in checks.items():
                if options.only in (None, name):
                    good = run_check(browser, name, check)
                    passed, failed = passed + good, failed + (not good)
                    browser.close_pages()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
