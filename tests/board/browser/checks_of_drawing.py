"""What is drawn is what the server sent."""

import datetime

from browsing import require

FIRST_LOSS = "(() => { const c = window.rekindle.plotted.curves.loss; return (c.mean || c.value)[0][0]; })()"


def milliseconds(text):
    return datetime.datetime.fromisoformat(text).timestamp() * 1000


def compare_curves(plotted, curves):
    count = 0
    for name, curve in curves.items():
        if not curve["step"]:
            continue
        require(name in plotted, f"{name} is not drawn")
        for part in curve.keys() - {"step"}:
            drawn, sent = plotted[name][part], [list(pair) for pair in zip(curve["step"], curve[part])]
            require(
                drawn == sent,
                f"{name}.{part}: {next((p for p in zip(drawn, sent) if p[0] != p[1]), (len(drawn), len(sent)))}",
            )
            count += len(sent)
    return count


def curves_drawn(browser):
    """Every point of the curves, in runs that are shown whole and thinned; and the canvas has their colour."""
    count = 0
    for scenario in ("running", "lost", "big"):
        page = browser.open(scenario).drawn()
        page.connection("live")
        sent = page.newest("curves")["curves"]
        require(len(sent) >= 5, f"{scenario}: only {list(sent)}")
        count += compare_curves(page.plotted()["curves"], sent)
        colored = page.eval("""() => { const canvas = document.querySelector('.main-plot canvas');
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data; let blue = 0;
            for (let i = 0; i < data.length; i += 4) blue += data[i + 2] > data[i] + 60 && data[i + 3] > 200; return blue; }""")
        require(colored > 500, f"{scenario}: {colored} pixels of the plot have the colour of its line")
    return f"{count} values equal"


def compare_lanes(page):
    """The drawn lanes, their bars' places on the screen and their ends against the summary."""
    summary, plotted = page.newest("summary"), page.plotted()["lanes"]
    key = lambda lane: (lane["attempt"], lane["trainer"])
    drawn = {key(lane): lane for lane in plotted}
    sent = {key(lane): lane for lane in summary["lanes"]}
    require(len(drawn) == len(plotted) and drawn.keys() == sent.keys(), f"{len(drawn)} lanes drawn, {len(sent)} sent")
    spans = [span for lane in sent.values() for span in lane["spans"]]
    begin = min(milliseconds(span["from"]) for span in spans)
    bars = 0
    for name, lane in sent.items():
        got = drawn[name]
        require(got["end"] == lane["end"], f"{name} ends with {got['end']}")
        require(
            [(s["from"], s["to"], s["state"]) for s in got["spans"]]
            == [(s["from"], s["to"], s["state"]) for s in lane["spans"]],
            f"{name}",
        )
        for bar, span in zip(got["spans"], lane["spans"]):
            if span["to"] is not None:
                bars += 1
                bar.update(
                    begin_ms=milliseconds(span["from"]) - begin,
                    length_ms=milliseconds(span["to"]) - milliseconds(span["from"]),
                )
    # One scale for all bars: percent for each millisecond.
    closed = [bar for lane in drawn.values() for bar in lane["spans"] if bar.get("length_ms", 0) > 0]
    longest = max(closed, key=lambda bar: bar["length_ms"])
    scale = longest["width"] / longest["length_ms"]
    for bar in closed:
        require(
            abs(bar["left"] - bar["begin_ms"] * scale) < 0.05 and abs(bar["width"] - bar["length_ms"] * scale) < 0.05,
            f"bar {bar}",
        )
    for lane in drawn.values():
        for bar in lane["spans"]:
            require(bar["to"] is not None or abs(bar["left"] + bar["width"] - 100) < 0.05, f"open bar {bar}")
    return len(drawn), bars


def lanes_drawn(browser):
    """Every lane and every bar; on the screen, too."""
    lanes = bars = 0
    for scenario in ("running", "lost", "big"):
        page = browser.open(scenario).drawn()
        page.connection("live")
        page.open_everything()
        more = compare_lanes(page)
        lanes, bars = lanes + more[0], bars + more[1]
        # The boxes that a reader sees: all bars of the summary, and no bar over another one of its row.
        over = page.eval("""() => [...document.querySelectorAll('.lanes li:not(.attempts-lane) .track')].flatMap((track) => {
            const boxes = [...track.querySelectorAll('.span')].map((node) => node.getBoundingClientRect());
            return boxes.slice(1).filter((box, index) => box.left < boxes[index].right - 2.5).map((box) => box.left); }).length""")
        require(over == 0, f"{scenario}: {over} bars lie over others")
        shown = page.eval("document.querySelectorAll('.lanes li:not(.attempts-lane) .span').length")
        sent = sum(len(lane["spans"]) for lane in page.newest("summary")["lanes"])
        require(shown == sent, f"{scenario}: {shown} bars for {sent} spans")
    words = browser.open("lost").drawn().eval("document.querySelector('.lane-end').textContent")
    require("killed by signal 9" in words and "rejoined" in words, f"the row of the lost trainer says {words}")
    return f"{lanes} lanes with {bars} bars that have ended"


def tables_drawn(browser):
    """The other lists, by their lengths and some of their cells."""
    page = browser.open("lost").drawn()
    page.open_everything()
    summary = page.newest("summary")
    for name in ("trainers", "attempts", "generations", "checkpoints", "warnings", "events"):
        rows = page.eval(f"document.querySelectorAll('#{name} tbody tr').length")
        require(rows == len(summary[name]), f"{name}: {rows} of {len(summary[name])}")
    verified = page.eval("document.querySelectorAll('#checkpoints td[data-tone=good]').length")
    wanted = sum(one["verified"] and one["there"] for one in summary["checkpoints"])
    require(verified == wanted, f"{verified} of {wanted} checkpoints are shown as verified")
    shares = page.eval(
        "[...document.querySelectorAll('.segment')].reduce((sum, node) => sum + parseFloat(node.style.width), 0)"
    )
    require(abs(shares - 100) < 0.1, f"the parts of a step are {shares} %")
    return "six lists complete"


def zoom(browser):
    """A drag fetches detail; a double click shows everything again."""
    page = browser.open("big").drawn()
    page.connection("live")
    coarse = page.newest("curves")
    box = page.page.locator(".main-plot .u-over").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + box["width"] * 0.55, middle, steps=4)
    page.page.mouse.up()
    page.wait("window.rekindle.plotted.curves.loss && document.getElementById('range').value === 'zoom'", "the zoom")
    page.wait(f"{FIRST_LOSS} > 490000", "the detail")
    asked = [address for address in page.server.requests if "api/curves" in address][-1]
    require("from=" in asked and "to=" in asked, f"asked for {asked}")
    fine = page.newest(asked.split("/api/")[1])
    require(abs(fine["from"] - 500_000) < 5000 and abs(fine["to"] - 550_000) < 5000, f"{fine['from']} to {fine['to']}")
    compare_curves(page.plotted()["curves"], fine["curves"])
    apart = lambda curve: curve["step"][11] - curve["step"][10]
    require(apart(fine["curves"]["loss"]) * 10 < apart(coarse["curves"]["loss"]), "the detail is not finer")
    page.page.mouse.dblclick(box["x"] + box["width"] / 2, middle)
    page.wait(f"document.getElementById('range').value === '1' && {FIRST_LOSS} < 10000", "the whole curve")
    before, after = apart(coarse["curves"]["loss"]), apart(fine["curves"]["loss"])
    return f"steps {fine['from']} to {fine['to']}, a point for {after} steps in place of {before}"


def controls(browser):
    """Smoothing, log scale, another metric, the newest part."""
    page = browser.open("lost").drawn()
    page.connection("live")
    page.page.locator("#smoothing").fill("0")
    page.wait("!('smoothed' in window.rekindle.plotted.curves.loss)", "the curve without smoothing")
    page.page.locator(".panel-head input").first.check()
    page.wait("window.rekindle.plotted.curves.loss.mean.length > 0", "the log scale")
    page.page.locator(".curve-choice").nth(1).select_option("lr")
    page.wait(
        "'lr' in window.rekindle.plotted.curves && !('accuracy' in window.rekindle.plotted.curves)", "the learning rate"
    )
    page.page.locator("#range").select_option("0.1")
    page.wait(f"{FIRST_LOSS} >= 1529", "the newest tenth")
    page.page.locator("#zoom-out").click()
    page.wait(f"{FIRST_LOSS} < 100", "all steps")
    require(not page.errors, f"errors: {page.errors}")
    return "smoothing, log scale, metric, newest part"


def hover(browser):
    """The values under the pointer, of each metric of the plot; without a pointer the newest ones."""
    page = browser.open("running").drawn()
    page.connection("live")
    curves = page.newest("curves")["curves"]
    readout = page.page.locator(".main-plot .readout")
    newest = curves["loss"]["step"][-1]
    require(f"last: step {newest}" in readout.inner_text(), f"without a pointer: {readout.inner_text()}")
    box = page.page.locator(".main-plot .u-over").bounding_box()
    for part in (0.25, 0.6):
        page.page.mouse.move(box["x"] + box["width"] * part, box["y"] + box["height"] / 3)
        page.wait("!document.querySelector('.main-plot .readout').textContent.startsWith('last')", "the values there")
        words = readout.inner_text()
        step = int(words.split()[1])
        require(abs(step - newest * part) <= 2, f"at {part} of {newest} steps: {words}")
        loss = curves["loss"]["value"][curves["loss"]["step"].index(step)]
        require(f"loss {loss:.4g}" in words, f"loss {loss} at step {step}: {words}")
    page.page.mouse.move(5, 5)
    page.wait("document.querySelector('.main-plot .readout').textContent.startsWith('last')", "the newest values")
    return "two places of the pointer"


def shown_cells(page, table):
    """The rows of a table as texts."""
    return page.eval(f"""[...document.querySelectorAll('#{table} tbody tr')].map(
        (row) => [...row.cells].map((cell) => cell.innerText.trim()))""")


def ago(seconds):
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def figure_of(page, name):
    return page.eval(f"document.getElementById('{name}').textContent")


def cells(browser):
    """What a person reads of CPU, memory, GPU, age and time: the words for given numbers."""
    server = browser.server("running")
    base = server.run.base
    base["seconds_left"], base["time_limit"] = 90, ago(-2 * 3600 - 55)
    for trainer in base["trainers"]:
        trainer.update(cpu_percent=203.7, memory_bytes=1_340_000_000, peak_pss_bytes=870_000_000)
        trainer.update(gpu_busy_percent=93, gpu_used_bytes=60_000_000_000, gpu_total_bytes=80_000_000_000)
    base["checkpoints"] = [
        {"name": f"c{at}", "step": at, "at": ago(past), "bytes": 531_000_000, "verified": at < 200, "there": at > 100}
        for at, past in ((100, 3 * 86400 + 60), (150, 3 * 3600 + 60), (200, 185))
    ]
    page = browser.open("running", address=server.address).drawn()
    page.open_everything()
    for row in shown_cells(page, "trainers"):
        require(row[4:9] == ["204 %", "1.3 GB", "870 MB", "93 %", "75 %"], f"a trainer's row: {row}")
    rows = [row[:4] for row in shown_cells(page, "checkpoints")]
    wanted = [["200", "3 min ago", "○ not read yet", "531 MB"], ["150", "3 h 1 min ago", "✓ verified", "531 MB"]]
    require(rows[:2] == wanted and rows[2][1:3] == ["3 d 0 h ago", "removed"], f"checkpoints: {rows}")
    require(figure_of(page, "checkpoint-value") == "3 min ago" and figure_of(page, "checkpoint-note") == "step 200", "the newest checkpoint")
    require(figure_of(page, "left-value") == "1 min 30 s", f"time left: {figure_of(page, 'left-value')}")
    require(figure_of(page, "limit-value") == "2 h 0 min", f"time limit: {figure_of(page, 'limit-value')}")
    require("before the end" not in figure_of(page, "limit-note"), "the limit comes after the end")
    page.server.stop()
    server.run.base["time_limit"] = ago(-60)
    page = browser.open("running", address=server.address).drawn()
    require("before the end" in figure_of(page, "limit-note"), f"the limit: {figure_of(page, 'limit-note')}")
    server.stop()
    return "a trainer's, a checkpoint's and the run's figures"


def keys(browser):
    """The plot and the theme without a mouse."""
    page = browser.open("running").drawn()
    page.connection("live")
    plot = page.page.locator(".main-plot .plot")
    plot.focus()
    page.page.keyboard.press("Home")
    require("step 1," in plot.get_attribute("aria-valuetext"), plot.get_attribute("aria-valuetext"))
    page.page.keyboard.press("Shift+ArrowRight")
    page.page.keyboard.press("ArrowLeft")
    words = plot.get_attribute("aria-valuetext")
    loss = page.newest("curves")["curves"]["loss"]["value"][9]
    require("step 10," in words and f"loss {loss:.4g}" in words, f"{words}, loss {loss}")
    page.page.keyboard.press("+")
    page.wait("document.getElementById('range').value === 'zoom'", "the zoom")
    page.page.keyboard.press("Escape")
    page.wait("document.getElementById('range').value === '1'", "all steps")
    page.page.locator("#theme").select_option("dark")
    page.page.reload()
    page.drawn()
    require(page.eval("document.documentElement.dataset.theme") == "dark", "the theme is not kept")
    return "arrow keys, zoom, theme"


CHECKS = [curves_drawn, lanes_drawn, tables_drawn, zoom, hover, cells, controls, keys]
