#!/usr/bin/env python3
"""A real Prometheus scrapes a run through a death, a stop and another attempt; then each query of the dashboard has a value.
It also finds a run by the file of --metrics-targets: two attempts, each at a free port.

    tests/board/prometheus_test.py PATH_TO_REKINDLE SOURCE_FOLDER

Exit code 77: Prometheus is not installed.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent / "browser"))

from real_board import Board  # noqa: E402
from real_prometheus import Prometheus  # noqa: E402
from waiting import wait_for  # noqa: E402

REKINDLE, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
MONITORING = SOURCE / "examples/monitoring"
TOKEN = "a-token-for-the-metrics-of-a-test"
RUNS = """
  - job_name: runs
    honor_labels: true
    authorization:
      credentials_file: token
    file_sd_configs:
      - files: ["targets/*.json"]
"""


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
        wait_for("recovery", lambda: '"recovered"' in (run / "events.jsonl").read_text())
        subprocess.run([REKINDLE, "stop", run], check=True, stdout=subprocess.DEVNULL)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return json.loads((run / "status.json").read_text())["step"]


def by_targets(prometheus, folder, processes):
    """A run that Prometheus finds by the file of --metrics-targets, at its first port and, resumed, at another one."""
    run, targets = folder / "alone/two", folder / "targets"

    def addresses():
        return [json.loads(path.read_text())[0]["targets"][0] for path in targets.glob("*.json")]

    def instances():
        return [target["labels"]["instance"] for target in prometheus.get("targets?state=active")["activeTargets"]
                if target["labels"].get("run") == "two"]

    last = 0
    for _ in range(2):
        processes.append(subprocess.Popen(
            command(folder, run, 1000000) + ["--metrics-bind", "127.0.0.1:0", "--metrics-token-file", folder / "token",
                                             "--metrics-targets", targets], stdout=subprocess.DEVNULL))
        [address] = wait_for("target", addresses)

        def step():
            values = prometheus.query(f'rekindle_step{{run="two", instance="{address}"}}')
            return values[0] if values and values[0] > last else None

        last = wait_for(f"step of the run at {address}", step)
        subprocess.run([REKINDLE, "stop", run], check=True, stdout=subprocess.DEVNULL)
        processes.pop().wait()
        if list(targets.iterdir()):
            raise SystemExit("prometheus_test: a run that has ended is still a target")
        wait_for("end of the target", lambda: not instances())


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
    board = Board(REKINDLE, folder / "runs", folder)
    processes.append(board.process)
    (folder / "targets").mkdir()

    def scraped():
        try:
            return get(f"http://127.0.0.1:{board.metrics_port}/metrics", TOKEN)
        except OSError:
            return None

    text = wait_for("metrics", scraped)
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    if checked.returncode or checked.stderr:
        raise SystemExit(f"prometheus_test: promtool check metrics: {checked.stdout}{checked.stderr}")
    prometheus = Prometheus(SOURCE, folder, board.metrics_port, RUNS)
    processes.append(prometheus.process)

    def step(wanted):
        return lambda: any(value >= wanted for value in prometheus.query('rekindle_step{run="one"}'))

    wait_for("first step in Prometheus", step(first))
    train(folder, first + 40)  # another attempt, under the same target
    wait_for("last step in Prometheus", step(first + 40))
    if (attempts := prometheus.query('rekindle_attempts_total{run="one"}')) != [2.0]:
        raise SystemExit(f"prometheus_test: attempts: {attempts}")
    counters = re.findall(r"^# TYPE (\w+) counter$", text, re.M) + ["rekindle_step_duration_seconds_count"]
    resets = {name: prometheus.query(f"resets({name}[10m])") for name in counters}
    if not all(resets.values()) or any(any(values) for values in resets.values()):
        raise SystemExit(f"prometheus_test: counters that fell, or that are not there: {resets}")
    queries = prometheus.check_dashboard(".*")
    by_targets(prometheus, folder, processes)
    print(f"prometheus_test: {queries} queries have values")
    return 0


if __name__ == "__main__":
    sys.exit(main())
