"""Installs the wheel of `./dev package` in a new environment, and trains there: wheel.py WHEEL.

The interpreter has torch and numpy; the environment takes them from it. One trainer is killed, the run is stopped and
goes on with another number of trainers: the digest is that of an undisturbed run.
"""

import json
import os
import pathlib
import site
import subprocess
import sys
import tempfile
import time
import venv

SCRIPT = pathlib.Path(__file__).with_name("everything.py")
DOCUMENT = (pathlib.Path(__file__).parents[2] / "docs/python.md").read_text()
FIRST_SCRIPT = DOCUMENT.split("<!-- test: first script -->\n```python\n")[1].split("```")[0]
LIMIT_S = 300


def check(holds, what):
    if not holds:
        raise SystemExit(f"wheel: {what}")


class Installed:
    """The wheel in an environment of its own, and a folder for runs."""

    def __init__(self, folder, wheel):
        self.folder = folder
        venv.create(folder / "env", with_pip=True)
        self.python = folder / "env/bin/python"
        self.others = folder / "others"  # where a library of the wheel would not load
        self.others.mkdir()
        (self.others / "libcaf_core.so.0.17.6").write_text("no library")
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        others = folder / "env/lib" / version / "site-packages/others.pth"
        others.write_text("".join(f"import site; site.addsitedir({each!r})\n" for each in site.getsitepackages()))
        subprocess.run([self.python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel], check=True)

    def start(self, *words):
        # No PYTHONPATH: what is tested is the installed package.
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "LD_LIBRARY_PATH": str(self.others)}
        return subprocess.Popen(
            [self.folder / "env/bin/rekindle", *words],
            cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, *words, code=0):
        child = self.start(*words)
        text = child.communicate(timeout=LIMIT_S)[0]
        check(child.returncode == code, f"{words} ended with {child.returncode}:\n{text}")
        return text

    def train(self, run_dir, workers, *options):
        return ["local", "--run-dir", run_dir, "--workers", str(workers), *options, SCRIPT, "steps=200"]


def status_at(installed, run_dir, step, child):
    """The status of a run that has completed a step."""
    begin = time.monotonic()
    while time.monotonic() - begin < LIMIT_S and child.poll() is None:
        asked = installed.start("status", "--json", run_dir)
        text = asked.communicate()[0]
        if asked.returncode == 0 and json.loads(text).get("step", 0) >= step:
            return json.loads(text)
        time.sleep(0.1)
    raise SystemExit(f"wheel: the run did not come to step {step}:\n{child.communicate()[0]}")


def main(wheel):
    with tempfile.TemporaryDirectory() as folder:
        installed = Installed(pathlib.Path(folder), wheel)
        print("wheel:", installed.run("--version").strip(), "for", sys.version.split()[0])
        parts = list(installed.folder.glob("env/lib/*/site-packages/rekindle-*.dist-info/sboms/rekindle.cdx.json"))
        check(len(parts) == 1 and "uPlot" in parts[0].read_text(), "the list of its parts is not in it")
        installed.run(*installed.train("calm", 1))
        digest = installed.run("digest", "calm")

        child = installed.start(*installed.train("faults", 2, "--loader-threads", "1"))
        trainers = status_at(installed, "faults", 3, child)["trainers"]
        os.kill(trainers[-1]["pid"], 9)
        status_at(installed, "faults", 20, child)
        installed.run("stop", "faults")
        text = child.communicate(timeout=LIMIT_S)[0]
        check(child.returncode == 75, f"the stopped run ended with {child.returncode}:\n{text}")
        check("killed by signal 9" in text, f"no trainer was killed:\n{text}")
        installed.run(*installed.train("faults", 3, "--exchange", "tcp"))
        check(installed.run("digest", "faults") == digest, "another digest after a kill and a stop")

        code = "import rekindle, torch; print(rekindle.open('calm').status()['state'], len(rekindle.open('calm').checkpoints()))"
        state = subprocess.run([installed.python, "-c", code], cwd=folder, check=True, capture_output=True, text=True)
        check(state.stdout.startswith("finished "), state.stdout + state.stderr)
        text = installed.run("selftest", "--workers", "2")
        check("every check has passed" in text, f"the self-test says:\n{text}")
        script = installed.folder / "train.py"  # the first one of docs/python.md
        script.write_text(FIRST_SCRIPT)
        done = subprocess.run([installed.python, script], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)
        check("the last loss is" in done.stdout, done.stdout + done.stderr)
        installed.run("local", "--run-dir", "model", "--model", "mnist-cnn", "--data", ".", "--steps", "1", code=78)
        print("wheel: trains with the same bits after a kill and a stop, digest", digest.strip())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
