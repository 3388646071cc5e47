#!/usr/bin/env python3
"""Keeps a Weights & Biases run of a run directory: all its steps, and what happens to it as text.

    rekindle watch RUN_DIR --from-start --json | wandb_offline.py RUN_DIR FOLDER

FOLDER/wandb gets the files, which `wandb sync` sends from a machine that has internet; with WANDB_MODE=online they are
sent at once, and a second start goes on with the same run. A step that the run makes again
after it went back has the same bits, so its first values count.
"""

import hashlib
import json
import os
import pathlib
import select
import sys
import time
import tomllib

import wandb

LOOK_S = 10.0


class Metrics:
    """The new lines of metrics.jsonl. When the run goes back, the file is shortened or written anew."""

    def __init__(self, path):
        self.path, self.offset, self.before = path, 0, b""
        self.seen = set()

    def new_lines(self):
        try:
            with self.path.open("rb") as file:
                # It may have been shortened, and have grown since.
                file.seek(self.offset - len(self.before))
                text = file.read()
                if text.startswith(self.before):
                    text = text[len(self.before) :]
                else:
                    file.seek(0)
                    self.offset, self.before, text = 0, b"", file.read()
        except FileNotFoundError:  # no step has been made
            return
        whole = text[: text.rfind(b"\n") + 1]
        self.offset += len(whole)
        if whole:
            self.before = whole[-256:]
        for line in whole.splitlines():
            values = json.loads(line)
            key = (values.get("step"), "test_loss" in values)
            if key not in self.seen:
                self.seen.add(key)
                yield {name: value for name, value in values.items() if isinstance(value, (int, float))}


def main():
    run_dir, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    while not (run_dir / "run.toml").exists():  # the run is about to begin
        time.sleep(1)
    config = tomllib.loads((run_dir / "run.toml").read_text())
    mode = os.environ.get("WANDB_MODE", "offline")
    name = hashlib.sha256(str(run_dir).encode()).hexdigest()[:12]
    run = wandb.init(mode=mode, id=name, resume="allow", name=run_dir.name, config=config, dir=str(folder))
    run.define_metric("*", step_metric="step")  # W&B's own steps only count up
    metrics = Metrics(run_dir / "metrics.jsonl")
    events, open_still, rest = [], True, b""
    while open_still:
        ready, _, _ = select.select([sys.stdin], [], [], LOOK_S)
        if ready:
            more = os.read(sys.stdin.fileno(), 1 << 20)
            open_still = bool(more)
            *lines, rest = (rest + more).split(b"\n")
            for event in map(json.loads, lines):
                events.append([event["at"], event["event"], event["step"], event["text"]])
        for values in metrics.new_lines():
            run.log(values)
    run.log({"events": wandb.Table(columns=["at", "event", "step", "text"], data=events)})
    run.finish()


if __name__ == "__main__":
    main()
