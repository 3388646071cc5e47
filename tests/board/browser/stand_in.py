"""A stand-in for rekindle-board: the page with made-up runs, as docs/board.md says.

    python3 stand_in.py --scenario lost --live        # then open the address that it prints
    python3 stand_in.py --board                       # a list of all scenarios

A test starts StandIn in its own process, and can let the server go away, come back, refuse, or count what was asked.
"""

import argparse
import http.server
import json
import pathlib
import queue
import re
import socket
import sys
import threading
import time
import urllib.parse

import made_up
import scenarios

PAGE = pathlib.Path(__file__).resolve().parents[3] / "board/page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def one_file(run):
    """The page as `rekindle status --html` writes it: each part in the place of the line that asks for it."""
    html = (PAGE / "run.html").read_text()
    part = lambda match: (PAGE / match[1]).read_text()
    html = re.sub(r'<link rel="stylesheet" href="([^"]+)">', lambda match: f"<style>{part(match)}</style>", html)
    html = re.sub(r'<script src="([^"]+)"></script>', lambda match: f"<script>{part(match)}</script>", html)
    data = {"summary": run.summary(), "curves": run.curves_answer(list(run.curves), None, None, 1000)}
    text = json.dumps(data).replace("<", "\\u003c")  # so that no text of the run ends the script element
    return html.replace("<body>", f'<body>\n<script type="application/json" id="data">{text}</script>', 1)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        stand_in = self.server.stand_in
        url = urllib.parse.urlsplit(self.path)
        with stand_in.lock:
            stand_in.requests.append(self.path)
        if not url.path.startswith(stand_in.folder):
            return self.json({"error": "This is not behind the proxy's folder."}, 404)
        path = urllib.parse.unquote(url.path.removeprefix(stand_in.folder))
        run = stand_in.run
        if stand_in.runs and path == "":
            return self.file("board.html")
        if stand_in.runs and path.startswith("run/"):
            name, _, path = path[4:].partition("/")
            run = next((one for one in stand_in.runs if one.name == name), None)
            if run is None:
                return self.json({"error": "There is no such run."}, 404)
        if path.startswith("api/") and stand_in.denied:
            return self.json({"error": "The link is not valid."}, 401)
        if path == "api/runs" and stand_in.runs:
            return self.json(stand_in.runs_answer())
        if path == "api/summary":
            return self.json(run.summary())
        if path == "api/curves":
            query = dict(urllib.parse.parse_qsl(url.query))
            number = lambda name: int(query[name]) if name in query else None
            return self.json(
                run.curves_answer(query["names"].split(","), number("from"), number("to"), number("points") or 1000)
            )
        if path == "api/live":
            return self.live(run)
        return self.file(path or "run.html")

    def answer(self, code, kind, body):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)
        with self.server.stand_in.lock:
            self.server.stand_in.bytes += len(body)

    def json(self, value, code=200):
        self.answer(code, "application/json", json.dumps(value, separators=(",", ":")).encode())

    def file(self, name):
        path = PAGE / name
        if "/" in name or not path.is_file():
            return self.json({"error": "There is no such page."}, 404)
        body = path.read_bytes()
        if (change := self.server.stand_in.changes.get(name)) is not None:
            if change[0].encode() not in body:
                raise SystemExit(f"{name} has no {change[0]}")
            body = body.replace(change[0].encode(), change[1].encode())
        return self.answer(200, TYPES.get(path.suffix, "text/plain"), body)

    def live(self, run):
        stand_in = self.server.stand_in
        events = queue.Queue()
        with stand_in.lock:
            stand_in.listeners.append((run, events))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self.wfile.write(b": hello\n\n")
            while (event := events.get()) is not None:
                self.wfile.write(f"event: {event[0]}\ndata: {json.dumps(event[1])}\n\n".encode())
        except OSError:
            pass
        with stand_in.lock:
            stand_in.listeners.remove((run, events))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.connections = set()

    def process_request(self, connection, address):
        self.connections.add(connection)
        super().process_request(connection, address)

    def shutdown_request(self, connection):
        self.connections.discard(connection)
        super().shutdown_request(connection)

    def handle_error(self, request, address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a page that was closed while it loaded
            super().handle_error(request, address)

    def cut(self):
        """Ends the connections that are kept open: their threads would answer after the server has gone."""
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the browser was faster


class StandIn:
    """Serves `run`, or a board of `runs`. `folder`: where, as behind a proxy that serves other things, too."""

    def __init__(self, run=None, runs=(), port=0, changes=None, folder="/"):
        self.folder = folder
        self.run, self.runs, self.port = run, list(runs), port
        self.changes = changes or {}  # {file: (old, new)}: a defect that a test plants
        self.denied = False
        self.requests, self.bytes = [], 0
        self.listeners, self.lock = [], threading.Lock()
        self.start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}{self.folder}"

    def start(self):
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.server.stand_in = self
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        """Goes away, with its open streams."""
        self.server.shutdown()
        self.server.server_close()
        self.server.cut()
        with self.lock:
            listeners = list(self.listeners)
        for _, events in listeners:
            events.put(None)

    def send(self, name, data):
        with self.lock:
            listeners = list(self.listeners)
        for run, events in listeners:
            if run is self.run or run in self.runs:
                events.put((name, data))

    def advance(self):
        """One step of the run, for all who listen."""
        if (data := self.run.advance()) is not None:
            self.send("status", data)

    def runs_answer(self):
        def one(run):
            base = run.summary()
            return {
                "name": run.name,
                "address": f"run/{urllib.parse.quote(run.name, safe='')}/",
                **{
                    key: base.get(key)
                    for key in ("directory", "state", "attempt", "step", "steps", "loss", "updated", "problem")
                },
            }

        return {"now": made_up.make_run().summary()["now"], "runs": [one(run) for run in self.runs]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenario", default="lost", choices=scenarios.SCENARIOS)
    parser.add_argument("--board", action="store_true", help="a list of all scenarios")
    parser.add_argument("--live", action="store_true", help="a step each 0.3 s")
    parser.add_argument("--denied", action="store_true", help="answer 401")
    parser.add_argument("--away", type=float, default=0, help="go away for 10 s each so many seconds")
    parser.add_argument("--port", type=int, default=8123)
    options = parser.parse_args()
    runs = [scenarios.scenario(name) for name in scenarios.SCENARIOS] if options.board else []
    stand_in = StandIn(None if runs else scenarios.scenario(options.scenario), runs, options.port)
    stand_in.denied = options.denied
    print(stand_in.address, flush=True)
    went = time.monotonic()
    while True:
        time.sleep(0.3)
        if options.live and stand_in.run:
            stand_in.advance()
        if options.away and time.monotonic() - went > options.away:
            stand_in.stop()
            time.sleep(10)
            stand_in.start()
            went = time.monotonic()


if __name__ == "__main__":
    main()
