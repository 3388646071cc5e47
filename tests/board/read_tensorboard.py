#!/usr/bin/env python3
"""Whether a real TensorBoard shows each step of a run once, with its newest value.

usage: read_tensorboard.py WRITE_TENSORBOARD      (the program of write_tensorboard.cpp)

The writer is killed, rewound and started again while four readers look: two of TensorBoard's own accumulators that live
all the time, a `tensorboard` process with its data server, and a new accumulator at each look. Ends with 77 if this
Python has no tensorboard.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

try:
    from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
    from tensorboard.util import tb_logging, tensor_util
except ImportError:
    print("skipped: this Python has no tensorboard")
    sys.exit(1 if os.environ.get("REKINDLE_STRICT") else 77)

PATIENCE_S = 60


class Writer:
    """A process that writes the files; it is given all lines of the run, as a board reads them."""

    def __init__(self, program, directory, name, seconds):
        self.process = subprocess.Popen([program, directory, name, str(seconds)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def write(self, *orders):
        self.process.stdin.write("".join(f"{order}\n" for order in orders) + "write\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer == "written\n", answer

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Run:
    """The lines of metrics.jsonl, and what TensorBoard must show of them."""

    def __init__(self):
        self.lines, self.events = [], []

    def steps(self, first, last, loss):
        made = []
        for step in range(first, last + 1):
            at = f"2026-11-26T12:{step // 60:02}:{step % 60:02}Z"
            made.append({"accuracy": step / 128, "at": at, "images_per_second": 1000.0 + step, "loss": loss + step, "lr": 0.5,
                         "step": step, "step_ms": 5.0})
            if step % 10 == 0:
                made.append({"at": at, "step": step, "test_count": 10, "test_loss": loss})
        self.lines += made
        return [f"metrics {json.dumps(line)}" for line in made]

    def event(self, **fields):
        self.events.append(fields)
        return f"event {json.dumps(fields)}"

    def rewind(self, step):
        self.lines = [line for line in self.lines if line["step"] <= step]

    def all(self):
        return (["begin"] + [f"metrics {json.dumps(line)}" for line in self.lines]
                + [f"event {json.dumps(fields)}" for fields in self.events])

    def expected(self):
        tags = {}
        for line in self.lines:
            for tag in ("accuracy", "images_per_second", "loss", "lr", "test_loss"):
                if tag in line:
                    tags.setdefault(tag, []).append((line["step"], line[tag]))
        return tags


ALL = {"scalars": 0, "tensors": 0}


class Accumulator:
    """`EventAccumulator`, as programs use it."""

    def __init__(self, folder):
        self.inner = event_accumulator.EventAccumulator(folder, size_guidance=ALL)

    def scalars(self):
        self.inner.Reload()
        return {tag: [(item.step, item.value) for item in self.inner.Scalars(tag)]
                for tag in self.inner.Tags()["scalars"]}


class PluginAccumulator:
    """The accumulator of TensorBoard's own pages."""

    def __init__(self, folder):
        self.inner = plugin_event_accumulator.EventAccumulator(folder, size_guidance=ALL, tensor_size_guidance={})

    def tensors(self, tag):
        self.inner.Reload()
        return [(item.step, tensor_util.make_ndarray(item.tensor_proto)) for item in self.inner.Tensors(tag)]

    def scalars(self):
        self.inner.Reload()
        return {tag: [(step, float(value)) for step, value in self.tensors(tag)]
                for tag in self.inner.Tags()["tensors"]}


class Server:
    """A `tensorboard` process; by default with its data server, which does not read SessionLog."""

    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--port", str(self.port), "--load_fast", "true",
             "--reload_interval", "1", "--samples_per_plugin", "scalars=100000"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def get(self, page, **query):
        address = f"http://127.0.0.1:{self.port}/data/plugin/scalars/{page}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def scalars(self):
        try:
            tags = self.get("tags").get(".", {})
            return {tag: [(step, value) for _, step, value in self.get("scalars", run=".", tag=tag)] for tag in tags}
        except (urllib.error.URLError, OSError):  # not there yet
            return {}

    def stop(self):
        self.process.terminate()
        self.process.wait()


def check(when, run, readers, server):
    for reader in readers:
        shown = {tag: items for tag, items in reader.scalars().items() if items}
        assert shown == run.expected(), f"{when}, {type(reader).__name__}: {shown} in place of {run.expected()}"
    if server:
        deadline = time.monotonic() + PATIENCE_S
        while (shown := server.scalars()) != run.expected():
            assert time.monotonic() < deadline, f"{when}, the server: {shown} in place of {run.expected()}"
            time.sleep(0.2)
    print(f"right: {when}")


def main(program):
    tb_logging.get_logger().setLevel("ERROR")  # it warns of each value that it forgets
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o700)
        folder = os.path.join(directory, "tensorboard")
        run, writer = Run(), Writer(program, directory, "n2.1", 1_900_000_000)
        writer.write("begin", *run.steps(1, 40, 0),
                     run.event(event="started", at="2026-11-26T12:00:00.000Z", step=0, host="n2"))
        server, living = Server(folder), [Accumulator(folder), PluginAccumulator(folder)]

        def look(when, with_server=True):
            check(when, run, living + [Accumulator(folder)], server if with_server else None)

        try:
            look("a first process")
            run.rewind(23)
            writer.write(*run.all())
            look("a rewind, before a new step", with_server=False)  # it forgets when new values come
            writer.write(*run.steps(24, 45, 1000))
            look("a rewind, and new steps")
            for to in (44, 31, 9):
                run.rewind(to)
                writer.write(*run.all(), *run.steps(to + 1, to + 25, 2000 * to),
                             run.event(event="recovered", at="2026-11-26T12:00:05.500Z", step=to, cause="lost", trainers=3))
                look(f"a rewind to {to}")
            writer.kill()
            files = sorted(name for name in os.listdir(folder) if "tfevents" in name)
            with open(os.path.join(folder, files[-1]), "r+b") as file:  # killed in the middle of a write
                begin = file.read(60)
                file.seek(0, os.SEEK_END)
                file.write(begin[:45])
            writer = Writer(program, directory, "n1.7", 1_000_000_000)
            writer.write(*run.all(), *run.steps(35, 50, 7))
            look("a second process, behind a torn file, with a clock that is late")
            writer.kill()
            run.rewind(37)
            new = run.steps(38, 60, 8)
            writer = Writer(program, directory, "n3.5", 1_000_000_000)
            writer.write(*run.all())
            look(f"a third process, after a rewind that no process saw, with {len(new)} new lines")
            run.rewind(5)
            writer.write(*run.all())
            writer.write(*run.steps(6, 70, 9))
            look("a rewind of the third process")
            assert len([name for name in os.listdir(folder) if "tfevents" in name]) == 3
            texts = PluginAccumulator(os.path.join(folder, "events")).tensors("events")
            assert [step for step, _ in texts] == [0, 44, 45, 46], texts
            assert texts[1][1][0] == b"**recovered** after step 44: cause lost, trainers 3", texts
            print("right: the texts")
        finally:
            writer.kill()
            server.stop()


main(*sys.argv[1:])
