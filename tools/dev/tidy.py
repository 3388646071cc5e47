"""Runs clang-tidy on the sources that changed since it last found them clean.

    tidy.py BUILD_DIRECTORY JOBS [--all | --since REVISION]

A source is unchanged while its text, the project headers that it reaches, its compile command and .clang-tidy are. What
was clean is kept in the cache folder, as ccache's objects are, for all checkouts. With --since, only sources that differ from those of this git revision are looked at, and at most 24 of them.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

QUOTED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


VERSION = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
# Where headers of the project are found beside the root and the folder of the source.
FOLDERS = ("include", "tests/process", "tests/slurm", "tests/model", "tests/oracle")


def reached(path, seen):
    """Adds path and every project file that it includes, over any number of steps."""
    if path in seen:
        return
    with open(path, encoding="utf-8") as file:
        seen[path] = file.read()
    for name in QUOTED.findall(seen[path]):
        for candidate in (name, os.path.join(os.path.dirname(path), name), *(os.path.join(each, name) for each in FOLDERS)):
            if os.path.isfile(candidate):
                reached(os.path.normpath(candidate), seen)
                break


def fingerprint(entry, texts):
    with open(".clang-tidy", encoding="utf-8") as file:
        # Checkouts in other folders have the same commands.
        parts = [VERSION, file.read(), entry["command"].replace(os.getcwd(), ".")] + [f"{name}\n{text}" for name, text in sorted(texts.items())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def tidy(build, path):
    done = subprocess.run(["clang-tidy", "-p", build, "--quiet", path], capture_output=True, text=True)
    if done.returncode:
        # clang-tidy's findings are on stdout. stderr has the number of suppressed warnings, or why the start failed.
        print(done.stdout or done.stderr, end="", flush=True)
    return done.returncode == 0


MOST_SINCE = 24  # a few minutes' worth


def changed_since(revision):
    """Sources and headers that differ from a git revision, those of the newest commits first."""
    words = ["git", "log", "--name-only", "--pretty=format:", f"{revision}..HEAD", "--", "*.cpp", "*.hpp"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return list(dict.fromkeys(line for line in done.stdout.splitlines() if line))


def source_for(changed, texts):
    """The source itself; for a header, its own source if there is one, or else one that includes it."""
    if changed.endswith(".cpp"):
        return changed
    own = changed.removesuffix(".hpp") + ".cpp"
    return own if own in texts else next((path for path in sorted(texts) if changed in texts[path]), None)


MOST_KEPT = 20000  # fingerprints


def record_path():
    folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rekindle")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, "tidy-clean.json")


def read_record(record):
    """The fingerprints of clean sources, the oldest first."""
    if not os.path.exists(record):
        return []
    with open(record, encoding="utf-8") as file:
        try:
            return json.load(file)
        except ValueError:  # nothing is known then
            return []


def main(build, jobs, everything, since):
    record = record_path()
    passed = set() if everything else set(read_record(record))
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = {os.path.relpath(entry["file"]): entry for entry in json.load(file)}
    texts = {path: {} for path in entries if path.endswith(".cpp") and not path.startswith("build/")}
    for path, found in texts.items():
        reached(path, found)
    now = {path: fingerprint(entries[path], found) for path, found in texts.items()}
    changed = sorted(path for path in now if now[path] not in passed)
    if since:
        sources = dict.fromkeys(source_for(path, texts) for path in changed_since(since))
        several = [path for path in sources if path in changed]
        changed = several[:MOST_SINCE]
        if len(several) > len(changed):
            print(f"dev: not looked at: {len(several) - len(changed)} more sources that changed since {since}", flush=True)
    if not changed:
        return True
    print(f"dev: clang-tidy on {len(changed)} of {len(now)} sources", flush=True)
    clean = {}
    try:
        with ThreadPoolExecutor(jobs) as pool:
            for path, good in zip(changed, pool.map(lambda path: tidy(build, path), changed)):
                clean[path] = good
    finally:  # an interrupted run keeps its clean results
        found = [now[path] for path, good in clean.items() if good]
        judged = {now[path] for path in clean}
        kept = [each for each in read_record(record) if each not in judged] + found  # another run may have added some
        with open(f"{record}.{os.getpid()}", "w", encoding="utf-8") as file:
            json.dump(kept[-MOST_KEPT:], file, indent=0)
        os.replace(f"{record}.{os.getpid()}", record)
    return all(clean.values())


parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("jobs", type=int)
parser.add_argument("--all", action="store_true")
parser.add_argument("--since")
given = parser.parse_args()
sys.exit(0 if main(given.build, given.jobs, given.all, given.since) else 1)
