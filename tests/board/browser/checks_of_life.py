"""Live events, polling, a server that goes away, refuses, or is not looked at."""

import time

from browsing import Failed, require
from checks_of_drawing import compare_lanes

SHOWN_STEP = "document.getElementById('step').textContent"
LAST_LOSS = "(() => { const c = window.rekindle.plotted.curves.loss; return (c.mean || c.value).at(-1); })()"


def live(browser):
    """Steps, changed lists and rewound steps, without a reload of the page."""
    page = browser.open("running").drawn().connection("live")
    page.eval("window.same_page = true")
    for _ in range(5):
        page.server.advance()
    page.wait(f"{SHOWN_STEP} === '305'", "step 305")
    page.wait(f"{LAST_LOSS}[0] === 305", "the loss of step 305")
    require(
        page.eval(LAST_LOSS) == [305, page.server.run.curves["loss"].value(305)],
        f"the last point is {page.eval(LAST_LOSS)}",
    )
    page.server.run.base["step"] = 290
    page.server.send("rewound", {"step": 290})
    page.wait(f"{LAST_LOSS}[0] === 290", "the curve up to step 290")
    page.server.advance()
    page.wait(f"{LAST_LOSS}[0] === 291 && {SHOWN_STEP} === '291'", "step 291 again")
    lane = page.server.run.base["lanes"][-1]
    lane["spans"][-1]["to"], lane["end"] = page.server.run.summary()["now"], "killed by signal 11"
    page.server.send("changed", {})
    page.wait("document.querySelector('.lanes').textContent.includes('killed by signal 11')", "the lost trainer")
    # The page draws a summary a moment after it has come.
    end = time.monotonic() + 10
    while True:
        try:
            compare_lanes(page)
            break
        except Failed:
            if time.monotonic() > end:
                raise
            page.page.wait_for_timeout(200)
    require(page.eval("window.same_page") and not page.errors, f"errors: {page.errors}")
    return "5 steps, a rewind, a lost trainer"


def reconnects(browser):
    """The server goes away and comes back: a note, then everything again."""
    page = browser.open("running").drawn().connection("live")
    page.server.stop()
    page.connection("lost")
    note = page.eval("document.getElementById('notice').textContent")
    require("No connection since" in note and page.page.locator("#notice").is_visible(), f"the note says {note}")
    require(
        "connection is lost" in page.eval("document.querySelector('[role=status]').textContent"), "nothing is announced"
    )
    page.server.run.base["step"] = 333
    page.server.requests.clear()
    page.server.start()
    page.connection("live")
    page.wait(f"{SHOWN_STEP} === '333' && {LAST_LOSS}[0] === 333", "step 333")
    require(not page.page.locator("#notice").is_visible(), "the note stays")
    kinds = {address.split("?")[0] for address in page.server.requests}
    require({"/api/summary", "/api/curves", "/api/live"} <= kinds, f"asked for {kinds}")
    page.server.advance()
    page.wait(f"{SHOWN_STEP} === '334'", "step 334")
    return "the note came and went, everything was fetched again"


def polls(browser):
    """Without EventSource the page asks by itself."""
    page = browser.open("running", script="delete window.EventSource").drawn().connection("polling")
    page.server.run.base["step"] = 321
    page.wait(f"{SHOWN_STEP} === '321' && {LAST_LOSS}[0] === 321", "step 321")
    require(not any("api/live" in address for address in page.server.requests), "asked for events")
    return "step 321 came"


def held_back(browser):
    """A proxy that holds the stream back does not keep the page empty."""
    page = browser.open(
        "running", script="""window.EventSource = class { constructor() {} addEventListener() {} close() {} };"""
    )
    page.drawn().connection("polling")
    page.server.run.base["step"] = 321
    page.wait(f"{SHOWN_STEP} === '321'", "step 321")
    return "filled without the stream, and polled"


def denied(browser):
    """401: what to do, and nothing more is asked."""
    server = browser.server("running")
    server.denied = True
    page = browser.open("running", address=server.address).connection("denied")
    words = page.eval("document.getElementById('notice').textContent")
    require("Open the link again that `rekindle status RUN --link` prints" in words, words)
    found = page.violations()
    require(not found, f"axe: {found}")
    server.denied = False
    page.page.locator("#notice button").click()
    page.drawn().connection("live")
    server.stop()
    return "says what to do, and goes on after it"


def hidden_tab(browser):
    """A page that nobody sees asks for nothing, and everything is fetched when it is shown again."""
    page = browser.open("running").drawn().connection("live")
    hide = """(hidden) => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
        document.dispatchEvent(new Event('visibilitychange')); }"""
    page.eval(hide, True)
    page.connection("paused")
    page.server.requests.clear()
    page.server.run.base["step"] = 340
    page.server.send("changed", {})
    page.page.wait_for_timeout(4000)  # longer than a poll: nothing to wait for, as nothing must come
    require(not page.server.requests, f"a hidden page asked for {page.server.requests}")
    page.eval(hide, False)
    page.connection("live").wait(f"{SHOWN_STEP} === '340'", "step 340")
    return "no request while hidden"


def begins(browser):
    """A run that has not begun, and begins while the page is open."""
    page = browser.open("new").loaded().connection("live")
    require("pending" in page.eval("document.getElementById('state').textContent"), "the state is not pending")
    page.server.run.base = browser.server("running").run.base
    page.server.send("changed", {})
    page.wait("document.getElementById('state').textContent.includes('running')", "the state running")
    page.drawn()
    require(not page.errors, f"errors: {page.errors}")
    return "pending, then running with curves"


CHECKS = [live, reconnects, polls, held_back, denied, hidden_tab, begins]
