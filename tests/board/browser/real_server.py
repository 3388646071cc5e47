"""The page of the real server: zooming, and a board that is started again."""

import pathlib
import sys

from on_record import compare_curves
from waiting import wait_for

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from real_board import Board  # noqa: E402

RANGE = "document.getElementById('range').value"


def require(holds, words):
    if not holds:
        raise SystemExit(f"real_server: {words}")


def open_link(page, link):
    """A link with a token leads on to the address without it."""
    page.goto(link)
    page.wait_for_url(lambda url: "token=" not in url)


def drawn_loss(page):
    return page.evaluate("window.rekindle.plotted")["curves"].get("loss", {})


def ask(page, query):
    return page.evaluate("(query) => fetch(`api/curves?names=loss&${query}`).then((answer) => answer.json())", query)


def check_thinning(page, metrics):
    """A few points for many steps have their lowest and highest values; a part of them is sent step by step."""
    coarse = ask(page, "points=8")
    loss = coarse["curves"]["loss"]
    require("min" in loss and "max" in loss and len(loss["step"]) <= 16, f"not thinned: {loss}")
    pairs = {part: list(zip(loss["step"], loss[part])) for part in ("min", "mean", "max")}
    compare_curves({"loss": pairs}, metrics())
    middle = coarse["last"] // 2
    fine = ask(page, f"points=8&from={middle}&to={middle + 5}")
    loss = fine["curves"]["loss"]
    require(loss["step"] == list(range(middle, middle + 6)) and "value" in loss, f"steps {middle} to {middle + 5}: {loss}")
    compare_curves({"loss": {"value": list(zip(loss["step"], loss["value"]))}}, metrics(), middle)


def check_zoom(page, metrics):
    """A drag asks the server for that part, and every step of it is drawn; a double click shows all."""
    check_thinning(page, metrics)
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "from=" in request.url else None)
    plot = page.locator(".main-plot .u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.3, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=4)
    page.mouse.up()
    wait_for("zoomed page", lambda: page.evaluate(RANGE) == "zoom")
    query = wait_for("request of a part", lambda: asked)[-1].split("?")[1]
    begin, end = (int(dict(pair.split("=") for pair in query.split("&"))[name]) for name in ("from", "to"))
    steps = lambda: [step for step, _ in drawn_loss(page).get("value", drawn_loss(page).get("mean", []))]
    wait_for("part of the curve", lambda: (drawn := steps()) and drawn[0] >= begin and drawn[-1] <= end)
    require(begin > 0 and len(steps()) > 1, f"{steps()} of {query}")
    compare_curves({"loss": drawn_loss(page)}, metrics(), begin)
    page.mouse.dblclick(box["x"] + box["width"] / 2, middle)
    wait_for("whole curve", lambda: page.evaluate(RANGE) == "1" and (drawn := steps()) and drawn[0] < begin)


def check_board_restarts(browser, rekindle, folder):
    """A board that is started again at its port: an open page goes on, and the link is the old one."""
    (folder / "token").write_text("a-token-for-the-metrics-of-a-board")
    (folder / "token").chmod(0o600)
    token = folder / "state/rekindle/board-token"
    board = Board(rekindle, folder, folder)
    try:
        link = f"http://127.0.0.1:{board.page_port}/?token={token.read_text().strip()}"
        context = browser.new_context()
        page = context.new_page()
        open_link(page, link)
        named = "[...document.querySelectorAll('#runs .name a')].some((node) => node.textContent === 'run')"
        wait_for("run on the board", lambda: page.evaluate(named))
        board.process.terminate()
        board.process.wait()
        away = "!document.getElementById('notice').hidden"
        wait_for("note that the board is away", lambda: page.evaluate(away))
        board = Board(rekindle, folder, folder, port=board.page_port)
        wait_for("board that is back", lambda: not page.evaluate(away))
        require(link.endswith(token.read_text().strip()), "the token is another one")
        other = browser.new_context()
        again = other.new_page()
        open_link(again, link)
        wait_for("run behind the old link", lambda: again.evaluate(named))
        other.close()
        context.close()
    finally:
        board.process.terminate()
        board.process.wait()
