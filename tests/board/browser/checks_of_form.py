"""Width, accessibility, text of others, size."""

import pathlib
import tempfile

import stand_in
from browsing import require

NARROW = 360


def narrow(browser):
    """At 360 pixels the page does not scroll sideways, with every list open."""
    for scenario in ("lost", "hostile", "failed", "new", "empty", "finished"):
        page = browser.open(scenario, width=NARROW, height=740).loaded()
        page.open_everything()
        width = page.eval("document.documentElement.scrollWidth")
        require(width <= NARROW, f"{scenario} is {width} pixels wide")
    return f"6 runs fit into {NARROW} pixels"


def accessible(browser):
    """axe finds nothing, in both themes, at both widths, with everything open."""
    count = 0
    for dark in (False, True):
        for scenario, width in (
            ("lost", 1400),
            ("lost", NARROW),
            ("hostile", NARROW),
            ("failed", 1400),
            ("new", NARROW),
        ):
            page = browser.open(scenario, width=width, dark=dark).loaded()
            for step in ("first", "open"):
                found = page.violations()
                require(not found, f"{scenario}, {width} pixels, {'dark' if dark else 'light'}, {step}: {found}")
                page.open_everything()
                count += 1
    return f"axe has no violation in {count} looks"


def hostile(browser):
    """Text of the server creates no element and runs nothing."""
    page = browser.open(
        "hostile",
        script="document.addEventListener('securitypolicyviolation', (e) => { window.violated = e.violatedDirective; })",
    ).loaded()
    page.open_everything()
    for attribute in ("title", "aria-label"):
        page.eval(f"document.querySelectorAll('[{attribute}]').length")
    made = page.eval("""[...document.querySelectorAll('img,svg,iframe,object,embed,b script,td *,li script,script:not([src]),[onerror],[onload]')]
        .filter((node) => !node.matches('time,.small-bar,.small-bar *,.mark')).map((node) => node.outerHTML.slice(0, 80))""")
    require(not made, f"elements were made: {made}")
    require(page.eval("window.hit") is None and not page.dialogs, "a script of the server's text ran")
    require(page.eval("window.violated") is None, f"the page breaks its policy: {page.eval('window.violated')}")
    require(not page.errors, f"errors: {page.errors}")
    shown = page.eval("document.body.textContent")
    require("<script>window.hit=1</script>" in shown and "\ufffd" in shown, "the text itself is not shown")
    return "text of the server stays text, the policy holds"


def size(browser):
    """What the first view of the long run costs."""
    page = browser.open("big").drawn().connection("live")
    paint = page.eval("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    tables = page.eval("performance.now()")
    require(page.server.bytes < 1_000_000, f"{page.server.bytes} bytes for the first view")
    nodes = page.eval("document.querySelectorAll('*').length")
    require(nodes < 3000, f"{nodes} elements before a list is opened")
    points = page.eval(
        "Math.max(...Object.values(window.rekindle.plotted.curves).map((c) => (c.mean || c.value).length))"
    )
    require(300 < points <= 2000, f"{points} points for a plot")
    open_ms = page.eval("""() => { const begin = performance.now();
        for (const node of document.querySelectorAll('button.more:not([hidden])')) node.click();
        document.body.getBoundingClientRect(); return performance.now() - begin; }""")
    file_bytes = len(stand_in.one_file(page.server.run).encode())
    require(file_bytes < 3_000_000, f"{file_bytes} bytes of the page in one file")
    return (
        f"first paint {paint:.0f} ms, everything drawn before {tables:.0f} ms, {page.server.bytes} bytes, as one file {file_bytes}, {nodes} elements, "
        f"{points} points; opening all lists {open_ms:.0f} ms"
    )


def one_file(browser):
    """The page in one file asks for nothing, from file://."""
    server = browser.server("lost")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "run.html")
        file.write_text(stand_in.one_file(server.run))
        page = browser.open(
            "hostile",
            address=file.as_uri(),
            script="""window.asked = [];
            new PerformanceObserver((list) => window.asked.push(...list.getEntries().map((e) => e.name))).observe({type: 'resource', buffered: true});""",
        )
        page.drawn().connection("file")
        asked = [name for name in page.eval("window.asked") if not name.startswith("data:")]
        require(not asked and not page.server.requests, f"the file asks for {asked} {page.server.requests}")
        require(not page.errors, f"errors: {page.errors}")
        plotted = page.plotted()
        wanted = server.run.curves_answer(["loss"], None, None, 1000)["curves"]["loss"]
        require(
            [step for step, _ in plotted["curves"]["loss"]["mean"]] == wanted["step"],
            "the loss is not that of the file",
        )
        require(page.eval("document.querySelectorAll('.lanes li').length") > 4, "no lanes")
        size = file.stat().st_size
    server.stop()
    return f"{size} bytes, no request"


def hostile_file(browser):
    """Text of the run cannot leave the data of the one-file page."""
    server = browser.server("hostile")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "run.html")
        file.write_text(stand_in.one_file(server.run))
        page = browser.open("lost", address=file.as_uri()).drawn()
        require(
            page.eval("window.hit") is None and not page.dialogs and not page.errors, f"{page.errors} {page.dialogs}"
        )
    server.stop()
    return "nothing ran"


CHECKS = [narrow, accessible, hostile, size, one_file, hostile_file]
