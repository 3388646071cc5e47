#!/usr/bin/env python3
"""examples/events with real programs: a web server gets each event of a run, and W&B's offline files have each step once.

    tests/board/hooks_test.py web-hook|early-stop|wandb PATH_TO_REKINDLE SOURCE_FOLDER
"""

import http.server
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

REKINDLE, SOURCE = pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()
EVENTS = SOURCE / "examples/events"
LIMIT_S = 120


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def command(folder, steps):
    return [REKINDLE, "local", "--run-dir", folder / "run", "--data", folder / "data", "--model", "mnist-cnn", "--batch-size",
            "16", "--steps", str(steps), "--checkpoint-interval", "1s", "--device", "cpu"]


def wait_for_step(folder, step):
    end = time.monotonic() + LIMIT_S
    metrics = folder / "run/metrics.jsonl"
    while not metrics.exists() or len(metrics.read_bytes().splitlines()) < step:
        if time.monotonic() > end:
            raise SystemExit(f"hooks_test: no step {step} within {LIMIT_S} s")
        time.sleep(0.1)


def web_hook(folder):
    posted = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (folder / "hook").write_text(f'url = "http://127.0.0.1:{server.server_port}/a-secret"\n')
    subprocess.run([*command(folder, 20), "--on-event", f"{EVENTS}/web-hook.sh {folder}/hook"], check=True)
    server.shutdown()
    wanted = [event["event"] for event in lines_of(folder / "run/events.jsonl")]
    got = [event["event"] for _, event in posted]
    assert got == wanted and "finished" in got, (got, wanted)
    assert all(path == "/a-secret" and event["text"] for path, event in posted), posted


def early_stop(folder):
    """With such a rate, the test loss stays what it is: the run ends after its third evaluation, or soon."""
    os.environ["REKINDLE"] = str(REKINDLE)
    done = subprocess.run([*command(folder, 1000000), "--lr", "1e-30", "--on-event", f"{EVENTS}/early_stop.py 2"])
    assert done.returncode == 75, done
    evaluations = sum("test_loss" in line for line in lines_of(folder / "run/metrics.jsonl"))
    assert evaluations >= 3, evaluations


def records_of(path):
    """The records of a .wandb file: LevelDB's log format, after a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    data, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = struct.unpack("<HB", data[at + 4:at + 7])
        parts += data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or its last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def offline(folder):
    import wandb  # noqa: F401

    train = subprocess.Popen(command(folder, 60))
    wait_for_step(folder, 1)
    watch = subprocess.Popen([REKINDLE, "watch", folder / "run", "--from-start", "--json"], stdout=subprocess.PIPE)
    keeper = subprocess.Popen([sys.executable, EVENTS / "wandb_offline.py", folder / "run", folder], stdin=watch.stdout)
    watch.stdout.close()
    wait_for_step(folder, 20)
    status = json.loads(subprocess.run([REKINDLE, "status", folder / "run", "--json"], check=True, capture_output=True).stdout)
    os.kill(status["trainers"][0]["pid"], signal.SIGKILL)  # the only one: the run goes back to a checkpoint
    assert train.wait(LIMIT_S) == 0
    assert watch.wait(LIMIT_S) == 0
    assert keeper.wait(LIMIT_S) == 0
    files = list(folder.glob("wandb/offline-run-*/*.wandb"))
    assert len(files) == 1, files
    losses, tests, events = [], 0, 0
    for record in records_of(files[0]):
        if record.WhichOneof("record_type") != "history":
            continue
        values = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        if "test_loss" in values:
            tests += 1
        elif "loss" in values:
            losses.append((values["step"], values["loss"]))
        events += any(name.startswith("events") for name in values)
    wanted = [(line["step"], line["loss"]) for line in lines_of(folder / "run/metrics.jsonl") if "loss" in line]
    assert losses == wanted and len(losses) == 60, (losses, wanted)
    evaluated = sum("test_loss" in line for line in lines_of(folder / "run/metrics.jsonl"))
    assert tests == evaluated and events == 1, (tests, evaluated, events)


def main():
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = pathlib.Path(name)
        subprocess.run([REKINDLE, "make-data", "mnist", folder / "data", "--samples", "400"], check=True, stdout=subprocess.DEVNULL)
        {"web-hook": web_hook, "early-stop": early_stop, "wandb": offline}[sys.argv[1]](folder)


if __name__ == "__main__":
    main()
