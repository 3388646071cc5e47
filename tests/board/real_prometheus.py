"""A real Prometheus with the configuration of examples/monitoring, and the queries of the dashboard there. For tests, whose
sys.path has the folder of waiting.py.
"""

import functools
import json
import math
import re
import subprocess
import urllib.parse
import urllib.request

from waiting import wait_for


class Prometheus:
    """Scrapes the metrics at a port of this machine each second. Its files are in `folder`, which has the token, too."""

    def __init__(self, source, folder, metrics_port, more=""):
        self.monitoring = source / "examples/monitoring"
        config = (self.monitoring / "prometheus.yml").read_text().replace("15s", "1s").replace("9300", str(metrics_port))
        (folder / "prometheus.yml").write_text(config.replace("rules.yml", str(self.monitoring / "rules.yml")) + more)
        self.log = folder / "prometheus.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}",
                 "--web.listen-address=127.0.0.1:0"], stdout=subprocess.DEVNULL, stderr=log)

    @functools.cached_property
    def address(self):
        """At the free port that its log names."""
        found = wait_for("address of Prometheus", lambda: re.search(
            r'msg="Listening on".*\baddress=127\.0\.0\.1:(\d+)\s', self.log.read_text()))
        return f"http://127.0.0.1:{found[1]}/api/v1"

    def get(self, path):
        with urllib.request.urlopen(f"{self.address}/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, text):
        """The values of all samples; none while Prometheus does not answer."""
        try:
            result = self.get("query?" + urllib.parse.urlencode({"query": text}))["result"]
        except OSError:
            return []
        return [float(sample["value"][1]) for sample in result]

    def without_value(self, queries):
        """Those of the queries that have no sample, or one that is not finite."""
        values = [self.query(query) for query in queries]
        return [f"{query}: {found}" for query, found in zip(queries, values)
                if not found or not all(math.isfinite(value) for value in found)]

    def check_dashboard(self, runs):
        """Each query of the dashboard gets a finite value for the runs whose name matches, and a wrong name is found."""
        panels = json.loads((self.monitoring / "dashboard.json").read_text())["panels"]
        queries = [target["expr"].replace("$run", runs) for panel in panels for target in panel["targets"]]
        bad = []

        def all_have_values():  # a rate needs two samples after the change
            bad[:] = self.without_value(queries)
            return not bad

        try:
            wait_for("finite value of each query", all_have_values)
        except SystemExit as late:
            raise SystemExit(f"{late}:\n" + "\n".join(bad)) from None
        wrong = [query.replace("rekindle_", "rekindel_") for query in queries]
        if len(self.without_value(wrong)) != len(wrong):
            raise SystemExit("a query of the dashboard has a value for a wrong name, too")
        return len(queries)
