"""The list of runs."""

from browsing import require
from checks_of_form import NARROW

NAMES = "[...document.querySelectorAll('#runs .name a')].map((node) => node.textContent)"


def board(browser):
    """All runs, those at work first; a filter; curves side by side."""
    page = browser.open_board().loaded()
    names = page.eval(NAMES)
    wanted = {run.name for run in page.server.runs}
    require(set(names) == wanted and len(names) == len(wanted), f"{names} of {wanted}")
    require(names[:3] == ["resnet50-imagenet", "vgg11", "soon"], f"the order is {names}")
    require(page.eval("window.hit") is None and not page.dialogs, "a script of a run's name ran")
    for name in ("mnist", "resnet50-imagenet"):
        page.page.locator(f'input[data-run="{name}"]').check()
    page.wait("Object.keys(window.rekindle.plotted.curves).length === 2", "two curves")
    for name, curve in page.plotted()["curves"].items():
        run = next(run for run in page.server.runs if run.name == name)
        asked = next(address for address in reversed(page.server.requests) if f"run/{name}/api/curves" in address)
        points = int(asked.split("points=")[1])
        sent = run.curves_answer(["loss"], None, None, points)["curves"]["loss"]
        middle = "mean" if "mean" in sent else "value"
        require(curve[middle] == [list(pair) for pair in zip(sent["step"], sent[middle])], f"the loss of {name}")
    page.page.locator("#filter").fill("fail")
    page.wait(f"{NAMES}.join() === 'diverged'", "the filtered list")
    page.page.locator("#filter").fill("")
    page.page.locator('a:text-is("vgg11")').click()
    page.drawn()
    require(page.page.locator("#to-board").is_visible(), "no way back to the list")
    require(page.eval("document.getElementById('name').textContent") == "vgg11", "another run")
    page.page.locator("#to-board").click()
    page.loaded()
    require(not page.errors, f"errors: {page.errors}")
    return f"{len(names)} runs, 2 side by side"


def board_form(browser):
    """Width and accessibility of the list."""
    count = 0
    for dark in (False, True):
        for width in (1400, NARROW):
            page = browser.open_board(width=width, dark=dark).loaded()
            for name in ("mnist", "vgg11", "resnet50-imagenet"):
                page.page.locator(f'input[data-run="{name}"]').check()
            page.wait("Object.keys(window.rekindle.plotted.curves).length === 3", "three curves")
            found = page.violations()
            require(not found, f"{width} pixels, {'dark' if dark else 'light'}: {found}")
            wide = page.eval("document.documentElement.scrollWidth")
            require(wide <= width, f"{wide} pixels wide in {width}")
            count += 1
    return f"axe has no violation in {count} looks, and it fits"


def board_returns(browser):
    """The list notes that the server is away, or refuses."""
    page = browser.open_board().loaded()
    page.server.stop()
    page.wait("!document.getElementById('notice').hidden", "the note")
    page.server.runs.pop()
    page.server.start()
    page.wait(f"{NAMES}.length === 6 && document.getElementById('notice').hidden", "the list without the last run")
    page.server.denied = True
    page.wait("document.getElementById('notice').textContent.includes('`rekindle board` prints')", "what to do")
    return "away, back, refused"


def behind_a_folder(browser):
    """A proxy serves the board in a folder of its own: everything that the pages ask for is below it."""
    folder = "/node/n1/8765/"
    page = browser.open_board(folder=folder).loaded()
    page.page.locator('input[data-run="mnist"]').check()
    page.wait("Object.keys(window.rekindle.plotted.curves).length === 1", "a curve")
    page.page.locator('a:text-is("vgg11")').click()
    page.drawn().connection("live")
    page.page.locator("#to-board").click()
    page.loaded()
    outside = [address for address in page.server.requests if not address.startswith(folder)]
    require(set(outside) <= {"/favicon.ico"}, f"asked for {outside}")  # the browser's own
    require(not page.errors, f"errors: {page.errors}")
    return f"{len(page.server.requests)} requests, all below {folder}"


CHECKS = [board, board_form, board_returns, behind_a_folder]
