#!/usr/bin/env python3
"""A real Prometheus scrapes a run through a death, a stop and another attempt; then each query of the dashboard has a value.
It also finds a run by the file of --metrics-targets: two attempts, each at a port of its own.

    tests/board/prometheus_test.py PATH_TO_REKINDLE SOURCE_FOLDER

Exit code 77: Prometheus is not installed.
"""

import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

REKINDLE, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
MONITORING = SOURCE / "examples/monitoring"
TOKEN = "a-token-for-the-metrics-of-a-test"
LIMIT_S = 120
RUNS = """
  - job_name: runs
    honor_labels: true
    authorization:
      credentials_file: token
    file_sd_configs:
      - files: ["targets/*.json"]
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what, found):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if (value := found()) is not None:
            return value
        time.sleep(0.2)
    raise SystemExit(f"prometheus_test: no {what} within {LIMIT_S} s")


def get(url, token=None):
    request = urllib.request.Request(url)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def command(folder, run, steps):
    return [REKINDLE, "local", "--run-dir", run, "--data", folder / "data", "--model", "mnist-cnn", "--batch-size", "16",
            "--steps", str(steps), "--workers", "2", "--checkpoint-interval", "1s"]


def train(folder, steps):
    subprocess.run(command(folder, folder / "runs/one", steps), check=True, stdout=subprocess.DEVNULL)


def trainer_of(run):
    """The pid of a trainer of a run that has made steps; None: there is none yet."""
    try:
        status = json.loads((run / "status.json").read_text())
    except (OSError, ValueError):
        return None
    trainers = [trainer["pid"] for trainer in status["trainers"] if trainer.get("rank", -1) >= 0]
    return trainers[0] if status["step"] > 3 and trainers else None


def train_with_a_death(folder):
    """An attempt in which a trainer is killed, and that is stopped after its recovery. The steps that it made."""
    run = folder / "runs/one"
    process = subprocess.Popen(command(folder, run, 1000000), stdout=subprocess.DEVNULL)
    try:
        os.kill(wait_for("trainer", lambda: trainer_of(run)), signal.SIGKILL)
        wait_for("recovery", lambda: '"recovered"' in (run / "events.jsonl").read_text() or None)
        subprocess.run([REKINDLE, "stop", run], check=True, stdout=subprocess.DEVNULL)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return json.loads((run / "status.json").read_text())["step"]


def by_targets(prometheus, folder, processes):
    """A run that Prometheus finds by the file of --metrics-targets, at its first port and, resumed, at the next."""
    run, targets = folder / "alone/two", folder / "targets"

    def instances():
        answer = json.loads(get(f"{prometheus}/api/v1/targets?state=active"))
        return [target["labels"]["instance"] for target in answer["data"]["activeTargets"]
                if target["labels"].get("run") == "two"]

    last = 0
    for port in (free_port(), free_port()):
        address = f"127.0.0.1:{port}"
        processes.append(subprocess.Popen(
            command(folder, run, 1000000) + ["--metrics-bind", address, "--metrics-token-file", folder / "token",
                                             "--metrics-targets", targets], stdout=subprocess.DEVNULL))

        def step():
            values = query(prometheus, f'rekindle_step{{run="two", instance="{address}"}}')
            return values[0] if values and values[0] > last else None

        last = wait_for(f"step of the run at {address}", step)
        subprocess.run([REKINDLE, "stop", run], check=True, stdout=subprocess.DEVNULL)
        processes.pop().wait()
        if list(targets.iterdir()):
            raise SystemExit("prometheus_test: a run that has ended is still a target")
        wait_for("end of the target", lambda: None if instances() else True)


def query(prometheus, text):
    answer = json.loads(get(f"{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": text})))
    return [float(sample["value"][1]) for sample in answer["data"]["result"]]


def check_queries(prometheus, panels):
    """The titles of the panels with a query that has no finite sample."""
    bad = []
    for panel in panels:
        for target in panel["targets"]:
            values = query(prometheus, target["expr"].replace("$run", ".*"))
            if not values or not all(math.isfinite(value) for value in values):
                bad.append(f"{panel['title']}: {target['expr']}: {values}")
    return bad


def main():
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        print("prometheus_test: not run: Prometheus is not installed")
        return 77
    rules = subprocess.run(["promtool", "test", "rules", "rules_test.yml"], cwd=MONITORING, capture_output=True, text=True)
    if rules.returncode:
        raise SystemExit(f"prometheus_test: {rules.stdout}{rules.stderr}")
    processes = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = pathlib.Path(name)
        try:
            return watch(folder, processes)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


def watch(folder, processes):
    (folder / "runs").mkdir()
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    subprocess.run([REKINDLE, "make-data", "mnist", folder / "data", "--samples", "400"], check=True, stdout=subprocess.DEVNULL)
    first = train_with_a_death(folder)
    board, prometheus = free_port(), free_port()
    environment = dict(os.environ, XDG_STATE_HOME=str(folder / "state"))
    processes.append(subprocess.Popen([REKINDLE, "board", folder / "runs", "--port", "0", "--metrics-bind", f"127.0.0.1:{board}",
                                       "--metrics-token-file", folder / "token"], env=environment, stdout=subprocess.DEVNULL))
    (folder / "targets").mkdir()
    config = (MONITORING / "prometheus.yml").read_text().replace("15s", "1s").replace("9300", str(board))
    (folder / "prometheus.yml").write_text(config.replace("rules.yml", str(MONITORING / "rules.yml")) + RUNS)

    def scraped():
        try:
            return get(f"http://127.0.0.1:{board}/metrics", TOKEN)
        except OSError:
            return None

    text = wait_for("metrics", scraped)
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    if checked.returncode or checked.stderr:
        raise SystemExit(f"prometheus_test: promtool check metrics: {checked.stdout}{checked.stderr}")
    processes.append(subprocess.Popen(["prometheus", f"--config.file={folder / 'prometheus.yml'}",
                                       f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{prometheus}"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    address = f"http://127.0.0.1:{prometheus}"

    def step(wanted):
        def found():
            try:
                values = query(address, 'rekindle_step{run="one"}')
            except OSError:
                return None
            return values if values and values[0] >= wanted else None
        return found

    wait_for("first step in Prometheus", step(first))
    train(folder, first + 40)  # another attempt, under the same target
    wait_for("last step in Prometheus", step(first + 40))
    if (attempts := query(address, 'rekindle_attempts_total{run="one"}')) != [2.0]:
        raise SystemExit(f"prometheus_test: attempts: {attempts}")
    counters = re.findall(r"^# TYPE (\w+) counter$", text, re.M) + ["rekindle_step_duration_seconds_count"]
    if fell := [name for name in counters if any(query(address, f"resets({name}[10m])"))]:
        raise SystemExit(f"prometheus_test: counters fell: {fell}")
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    bad = []

    def all_have_values():  # a rate needs two samples after the change
        bad[:] = check_queries(address, panels)
        return True if not bad else None

    try:
        wait_for("finite value of each query", all_have_values)
    except SystemExit as late:
        raise SystemExit(f"{late}:\n" + "\n".join(bad)) from None
    # The check finds a wrong name.
    wrong = [dict(panels[0], targets=[{"expr": re.sub("rekindle_", "rekindel_", panels[0]["targets"][0]["expr"])}])]
    if not check_queries(address, wrong):
        raise SystemExit("prometheus_test: a wrong name was not found")
    by_targets(address, folder, processes)
    print(f"prometheus_test: {sum(len(panel['targets']) for panel in panels)} queries have values")
    return 0


if __name__ == "__main__":
    sys.exit(main())
