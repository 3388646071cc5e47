"""Pages of other origins, in a browser that has the cookie of a run's page: none of them gets anything of the run."""

import http.server
import threading

# What a page gets from the server at `victim`, a line for each way.
ATTACK = """async (victim) => {
    const read = async (path, mode) => {
        try {
            const answer = await fetch(victim + path, { credentials: "include", mode });
            return `fetch (${mode}) of ${path}: ${answer.type}, ${answer.status}, ${(await answer.text()).slice(0, 80)}`;
        } catch {
            return "";
        }
    };
    const load = (kind, path) => new Promise((done) => {
        const node = document.createElement(kind);
        node.onload = () => done(`${kind} of ${path || "the page"}`);
        node.onerror = () => done("");
        node.src = victim + path;
        document.body.append(node);
    });
    const listen = (path) => new Promise((done) => {
        const source = new EventSource(victim + path, { withCredentials: true });
        const end = (words) => { source.close(); done(words); };
        source.onopen = () => end(`EventSource of ${path}`);
        source.onerror = () => end("");
    });
    const all = [read("api/summary", "cors"), read("page.js", "no-cors"), load("img", ""), load("script", "page.js"),
                 listen("api/live")];
    return (await Promise.all(all)).filter(Boolean);
}"""
WAYS = 5


class Careless(http.server.BaseHTTPRequestHandler):
    """Gives everything to every site: the page that attacks is from here, and the attack must succeed here."""

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        if self.headers.get("Accept", "").startswith("image/"):
            kind, body = "image/svg+xml", '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
        elif self.path.endswith(".js"):
            kind, body = "text/javascript", "0;"
        elif self.path.endswith("api/live"):
            kind, body = "text/event-stream", ": hello\n\n"
        else:
            kind, body = "text/html", "<!doctype html><title>Another site</title><body></body>"
        self.server.cookies.append(self.headers.get("Cookie", ""))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Access-Control-Allow-Origin", self.headers.get("Origin", "*"))
        self.send_header("Access-Control-Allow-Credentials", "true")
        self.end_headers()
        self.wfile.write(body.encode())


def start():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Careless)
    server.daemon_threads, server.cookies = True, []
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


def check(context, address):
    """`context` has the cookie for the page at `address`, on 127.0.0.1. A browser sends this cookie from a page at another
    port of 127.0.0.1, which is the same site, and not from a page of localhost. The words for a difference, or ""."""
    attacker, careless = start(), start()
    page = context.new_page()
    try:
        for host, same_site in (("127.0.0.1", True), ("localhost", False)):
            page.goto(f"http://{host}:{attacker.server_port}/")
            if got := page.evaluate(ATTACK, address):
                return f"a page of {host} gets {got}"
            careless.cookies.clear()
            if len(got := page.evaluate(ATTACK, f"http://127.0.0.1:{careless.server_port}/")) != WAYS:
                return f"of a careless server, a page of {host} gets only {got}"
            if any(careless.cookies) != same_site:
                return f"from a page of {host}, the cookies are {careless.cookies}"
    finally:
        page.close()
        for server in (attacker, careless):
            server.shutdown()
            server.server_close()
    return ""
