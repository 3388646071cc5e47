"""A browser with pages of the stand-in server, for the checks."""

import json
import time

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error, sync_playwright

import scenarios
import stand_in

PATIENCE_MS = 30000


class Failed(Exception):
    """What a check found, with words for a person."""


def require(holds, words):
    if not holds:
        raise Failed(words)


class Page:
    """One page and the server of its own behind it."""

    def __init__(
        self, browser, server, address=None, width=1400, height=900, dark=False, script=None, timeout_ms=PATIENCE_MS
    ):
        self.server = server
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(timeout_ms)
        self.timeout_ms = timeout_ms
        self.errors, self.dialogs, self.answers = [], [], {}
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console", lambda message: self.errors.append(message.text) if "Content Security" in message.text else None
        )
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.page.on("requestfinished", self.keep)
        if script:
            self.page.add_init_script(script)
        self.page.goto(address or server.address)

    def keep(self, request):
        """Keeps the newest JSON of each address of the API: what the page was given."""
        if "/api/" in request.url and "/api/live" not in request.url:
            try:
                self.answers[request.url.split("/api/")[1]] = json.loads(request.response().body())
            except (Error, ValueError):
                pass  # the page went on, or the answer is no JSON

    def wait(self, expression, words):
        # Playwright's own wait_for_function needs eval in the page, which the policy of the server forbids.
        end = time.monotonic() + self.timeout_ms / 1000
        while not self.page.evaluate(f"Boolean({expression})"):
            if time.monotonic() > end:
                raise Failed(f"{words} does not come ({'; '.join(self.errors)[:300]})")
            self.page.wait_for_timeout(50)
        return self

    def loaded(self):
        return self.wait("document.body?.dataset.loaded === 'true'", "the data")

    def drawn(self):
        return self.loaded().wait("Object.keys(window.rekindle?.plotted?.curves ?? {}).length > 0", "a curve")

    def connection(self, kind):
        return self.wait(f"document.body?.dataset.connection === '{kind}'", f"the state {kind} of the connection")

    def eval(self, expression, argument=None):
        return self.page.evaluate(expression, argument)

    def plotted(self):
        return self.eval("window.rekindle.plotted")

    def newest(self, name):
        """The JSON of the newest request whose address begins with `name`: its answer may be under way."""
        end = time.monotonic() + self.timeout_ms / 1000
        while not (found := [answer for address, answer in self.answers.items() if address.startswith(name)]):
            require(time.monotonic() < end, f"no answer of api/{name}")
            self.page.wait_for_timeout(50)
        return found[-1]

    def violations(self):
        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']} at {one['nodes'][0]['target']} ({one['nodes'][0]['failureSummary'][:160]})" for one in found
        ]

    def open_everything(self):
        self.eval("""() => {
            for (const node of document.querySelectorAll('details')) node.open = true;
            for (const node of document.querySelectorAll('button.more:not([hidden])')) node.click();
        }""")

    def close(self):
        self.context.close()
        self.server.stop()


class Browser:
    """Starts Chromium; `changes` are planted defects for the pages that follow."""

    def __init__(self, chromium):
        self.chromium, self.changes, self.pages, self.patience_ms = chromium, {}, [], PATIENCE_MS
        self.runs = {}

    def __enter__(self):
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=self.chromium, args=["--no-sandbox"])
        return self

    def __exit__(self, *ignored):
        self.browser.close()
        self.playwright.stop()

    def server(self, scenario):
        # The long run takes seconds to make up; no check changes it.
        run = (
            self.runs.setdefault(scenario, scenarios.scenario(scenario))
            if scenario == "big"
            else scenarios.scenario(scenario)
        )
        return stand_in.StandIn(run, changes=self.changes)

    def open(self, scenario, **options):
        return self.keep(Page(self.browser, self.server(scenario), timeout_ms=self.patience_ms, **options))

    def open_board(self, folder="/", **options):
        runs = [scenarios.scenario(name) for name in scenarios.SCENARIOS if name != "big"]
        server = stand_in.StandIn(None, runs, changes=self.changes, folder=folder)
        return self.keep(Page(self.browser, server, timeout_ms=self.patience_ms, **options))

    def keep(self, page):
        self.pages.append(page)
        return page

    def close_pages(self):
        for page in self.pages:
            page.close()
        self.pages.clear()
