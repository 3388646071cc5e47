#!/usr/bin/env python3
"""What the page costs the steps of a run: three pages are open, and 1,000 connections attack its server.

    bench/page_load.py build/release/bin/rekindle [--turns 5] [--steps 150] [--connections 1000]

Runs with and without alternate. Each has one trainer of one thread, so that a second core is left for the page, for those
who look at it and for the attackers. Prints the median step of each run, and the ratio of each pair.
"""

import argparse
import asyncio
import contextlib
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

LIMIT_S = 300


def steps_of(run):
    file = run / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [line["step_ms"] for line in lines if "step_ms" in line]


async def read_page(port, cookie, counts):
    """A page that is open: its stream of events. Like a browser, it connects again when the stream ends."""
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n\r\n".encode())
                counts["pages opened"] += 1
                while data := await reader.read(65536):
                    counts["bytes of pages"] += len(data)
                writer.close()
            await asyncio.sleep(2)


async def take_cookie(port, token):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /?token={token} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return next(line.split(": ", 1)[1].split(";")[0] for line in answer.splitlines() if line.lower().startswith("set-cookie"))


async def attack(port, number, counts):
    """By turns: says nothing, sends a byte a second, asks with a wrong token again and again."""
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            counts["opened"] += 1
            kind = number % 3
            if kind == 1:
                for byte in b"GET / HTTP/1.1\r\nHost: evil.example\r\nX: " + b"a" * 1000:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(1)
            elif kind == 2:
                writer.write(f"GET /api/summary?token={number} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                answer = await reader.read(65536)
                counts["answers"] += 1
                assert b" 200 " not in answer[:20], answer
            else:
                await reader.read(1)
            writer.close()
        except OSError:
            counts["refused"] += 1
        await asyncio.sleep(1)


async def surround(process, run, connections, counts):
    place = run / "page.json"
    while not place.exists():
        assert process.poll() is None
        await asyncio.sleep(0.1)
    port, token = json.loads(place.read_text())["port"], (run / "key/page-token").read_text().strip()
    while not steps_of(run):
        await asyncio.sleep(0.1)
    cookie = await take_cookie(port, token)
    tasks = [asyncio.create_task(read_page(port, cookie, counts)) for _ in range(3)]
    while not counts["bytes of pages"]:
        await asyncio.sleep(0.1)
    attackers = [asyncio.create_task(attack(port, number, counts)) for number in range(connections)]
    while process.poll() is None:
        await asyncio.sleep(0.2)
    for task in attackers + tasks:
        task.cancel()


def train(options, folder, name, watched, counts):
    run = folder / name
    command = [options.rekindle, "local", "--run-dir", run, "--data", folder / "data", "--model", "mnist-cnn", "--batch-size", "64",
               "--micro-batches", "8", "--workers", "1", "--steps", str(options.steps), "--checkpoint-interval", "1h"]
    process = subprocess.Popen(command + (["--status-port", "0"] if watched else []), stdout=subprocess.DEVNULL)
    if watched:
        asyncio.run(surround(process, run, options.connections, counts))
    assert process.wait(LIMIT_S) == 0
    return statistics.median(steps_of(run)[10:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rekindle", type=pathlib.Path)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--connections", type=int, default=1000)
    options = parser.parse_args()
    options.rekindle = options.rekindle.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([options.rekindle, "make-data", "mnist", folder / "data", "--samples", "2000"], check=True, stdout=subprocess.DEVNULL)
        train(options, folder, "warm", False, {})
        ratios = []
        for turn in range(options.turns):
            counts = {"opened": 0, "answers": 0, "refused": 0, "pages opened": 0, "bytes of pages": 0}
            order = [False, True] if turn % 2 == 0 else [True, False]
            times = {watched: train(options, folder, f"{turn}-{watched}", watched, counts) for watched in order}
            ratios.append(times[True] / times[False])
            print(f"turn {turn + 1}: {times[False]:.2f} ms alone, {times[True]:.2f} ms watched and attacked: {ratios[-1]:.3f}; {counts}",
                  flush=True)
            time.sleep(1)
        print(f"median of the ratios: {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
