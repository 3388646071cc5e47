"""A real `rekindle board`. For tests, whose sys.path has the folder of waiting.py."""

import functools
import os
import re
import subprocess

from waiting import wait_for


class Board:
    """The board of a folder with runs, at free ports unless one is given. Its files are in `folder`, which has the token of /metrics, too."""

    def __init__(self, rekindle, runs, folder, port=0):
        self.printed = folder / "board.out"
        with self.printed.open("w") as out:
            self.process = subprocess.Popen(
                [rekindle, "board", runs, "--port", str(port), "--metrics-bind", "127.0.0.1:0", "--metrics-token-file",
                 folder / "token"], env=dict(os.environ, XDG_STATE_HOME=str(folder / "state")), stdout=out)

    @functools.cached_property
    def page_port(self):
        return self.port_in("the page")

    @functools.cached_property
    def metrics_port(self):
        return self.port_in("metrics")

    def port_in(self, line):
        """The port that the program prints when it listens."""
        found = wait_for(f"port of the board's line '{line}'", lambda: re.search(
            rf"^{line}: http://127\.0\.0\.1:(\d+)/", self.printed.read_text(), re.M))
        return int(found[1])
