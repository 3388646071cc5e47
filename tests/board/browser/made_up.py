"""Made-up runs that agree with docs/board.md, for the stand-in server. Two equal calls make equal values."""

import copy
import datetime

from made_up_curves import metric_curves

HOSTILE = [
    "<script>window.hit=1</script>",
    '<img src=x onerror="window.hit=1">',
    "\"><svg onload=alert(1)>' \\ &lt;b&gt; \ufffd\ufffd",
    "a" * 300,
    "</script><script>alert(1)</script>",
]


def stamp(at):
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03}Z"


class Run:
    """One run: its summary, its curves, and what a live step changes."""

    def __init__(self, name, summary, curves, build=False):
        self.name, self.base, self.curves = name, summary, curves
        if build:
            for metric in ("loss", "accuracy", "images_per_second"):
                curves[metric].build(summary["step"] or 0)

    def summary(self):
        now = datetime.datetime.now(datetime.UTC)
        result = copy.deepcopy(self.base)
        result["now"] = stamp(now)
        if result["state"] == "running":
            result["updated"] = stamp(now)
        return result

    def curves_answer(self, names, begin, end, points):
        last = self.base["step"] or 0
        begin, end = begin or 0, last if end is None else min(end, last)
        answer = {"from": begin, "to": end, "last": last, "exact": True, "curves": {}}
        for name in names:
            if name in self.curves and last:
                answer["curves"][name], exact = self.curves[name].thinned(begin, end, points)
                answer["exact"] = answer["exact"] and exact
        return answer

    def advance(self):
        """One more step: the data of an event `status`."""
        if self.base["state"] != "running" or self.base["step"] >= self.base["steps"]:
            return None
        self.base["step"] += 1
        step = self.base["step"]
        self.base["loss"] = self.curves["loss"].value(step)
        self.base["seconds_left"] = (self.base["steps"] - step) * 0.3
        for trainer in self.base["trainers"]:
            trainer["step"] = step
        names = ["loss", "accuracy", "images_per_second"]
        now = datetime.datetime.now(datetime.UTC)
        fields = {key: self.base[key] for key in ("step", "loss", "seconds_left", "trainers")}
        return {
            **fields,
            "updated": stamp(now),
            "points": {name: [[step, self.curves[name].value(step)]] for name in names},
        }


def make_run(
    name="vgg11",
    steps=400,
    step=300,
    attempts=3,
    hosts=2,
    devices=2,
    gpu=False,
    lanes_at_most=500,
    step_s=0.9,
    pending_s=40.0,
    generations_each=1,
    lost=(),
    slow=(),
    state="running",
    build=False,
):
    """`lost`: the numbers of trainers that are lost in the middle of the newest attempt, and whose worker comes back."""
    now = datetime.datetime.now(datetime.UTC)
    second = datetime.timedelta(seconds=1)
    lasted = step * step_s / attempts
    began = now - (lasted * attempts + pending_s * (attempts - 1)) * second
    summary = {
        "name": name,
        "directory": f"/shared/runs/{name}",
        "state": state,
        "problem": "",
        "attempt": attempts,
        "generation": f"t{attempts}.g{generations_each}",
        "phase": "running",
        "recoveries": attempts * (generations_each - 1) + len(lost),
        "step": step,
        "steps": steps,
        "epoch": min(1, step * 2 // steps),
        "voided_steps": 0,
        "images_per_second": 396.0,
        "updated": stamp(now),
        "seconds_left": (steps - step) * step_s,
        "job": "4711",
        "time_limit": stamp(now + 5 * 3600 * second),
        "training_ratio": 0.982,
        "step_ms": {"step": 160.2, "data": 0.1, "compute": 97.0, "exchange": 48.0, "update": 12.0, "checkpoint": 0.4},
        "trainers": [],
        "lanes": [],
        "generations": [],
        "attempts": [],
        "checkpoints": [],
        "events": [],
        "warnings": [],
    }
    trainers = [(f"n{h + 1}", f"cuda:{d}" if gpu else "cpu", h, d) for h in range(hosts) for d in range(devices)]

    def event(kind, at, attempt, at_step, words):
        summary["events"].append({"event": kind, "at": stamp(at), "attempt": attempt, "step": at_step, "text": words})

    for attempt in range(1, attempts + 1):
        start = began + (attempt - 1) * (lasted + pending_s) * second
        end = start + lasted * second
        last = attempt == attempts
        ended = None if last and state == "running" else stamp(end)
        first_step = step * (attempt - 1) // attempts
        summary["attempts"].append(
            {
                "attempt": attempt,
                "began": stamp(start),
                "ended": ended,
                "host": "n1",
                "job": "4711",
                "why": "" if ended is None else "the job reaches its time limit",
                "pending_seconds": 0.0 if attempt == 1 else pending_s,
                "starting_seconds": 2.1,
                "recovering_seconds": 0.5 * (generations_each - 1),
                "first_step": first_step,
                "last_step": step * attempt // attempts,
                "lost_steps": 0,
            }
        )
        event("started", start, attempt, first_step, f"attempt {attempt} began on n1")
        for part in range(generations_each):
            at = start + part * lasted / generations_each * second
            goes_on = last and part == generations_each - 1 and ended is None
            why = (
                None
                if goes_on
                else "the attempt ended"
                if part == generations_each - 1
                else "trainer w0 was lost: killed by signal 9"
            )
            summary["generations"].append(
                {
                    "generation": f"t{attempt}.g{part + 1}",
                    "attempt": attempt,
                    "at": stamp(at),
                    "step": first_step + part * step // attempts // generations_each,
                    "trainers": len(trainers),
                    "ended": why,
                }
            )
        for number, (host, device, h, d) in enumerate(trainers):
            middle, slow_at = start + lasted * 0.55 * second, start + lasted * 0.8 * second
            trained = start + min(3, lasted / 10) * second
            worker = f"w{h}-e93{h:x}{attempt:03x}"
            lane = {
                "trainer": f"{worker}.{d}-1",
                "worker": worker,
                "host": host,
                "device": device,
                "attempt": attempt,
                "end": None,
                "spans": [
                    {"from": stamp(start), "to": stamp(trained), "state": "waiting"},
                    {"from": stamp(trained), "to": ended, "state": "training"},
                ],
            }
            summary["lanes"].append(lane)
            if last and number in lost:
                lane["spans"][-1]["to"] = stamp(middle)
                lane["end"] = "killed by signal 9"
                back = middle + lasted / 8 * second
                summary["lanes"].append(
                    {
                        **lane,
                        "trainer": f"{worker}.{d}-2",
                        "end": None,
                        "spans": [
                            {"from": stamp(middle + lasted / 12 * second), "to": stamp(back), "state": "waiting"},
                            {"from": stamp(back), "to": ended, "state": "training"},
                        ],
                    }
                )
                event(
                    "lost",
                    middle,
                    attempt,
                    first_step + int(lasted * 0.55 / step_s),
                    f"trainer {lane['trainer']} on {host} was lost: killed by signal 9",
                )
                event(
                    "recovered",
                    middle + 2 * second,
                    attempt,
                    first_step + int(lasted * 0.55 / step_s),
                    f"{len(trainers) - 1} trainers go on after 0.4 s",
                )
            if last and number in slow:
                lane["spans"][-1]["to"] = stamp(slow_at)
                lane["spans"].append({"from": stamp(slow_at), "to": ended, "state": "slow"})
            if last and state == "running":
                summary["trainers"].append(
                    {
                        "trainer": summary["lanes"][-1]["trainer"],
                        "rank": number,
                        "host": host,
                        "device": device,
                        "gpu": "NVIDIA H200" if gpu else "",
                        "pid": 13125 + number,
                        "phase": ["computing", "exchanging"][number % 2],
                        "step": step,
                        "slow": number in slow,
                        "cpu_percent": 101.2 - number % 7,
                        "memory_bytes": 1340000000 + number * 1000003,
                        "peak_pss_bytes": 1370101760,
                        "gpu_used_bytes": 61_200_000_000 if gpu else None,
                        "gpu_total_bytes": 150_754_820_096 if gpu else None,
                        "gpu_busy_percent": 97 - number % 5 if gpu else None,
                    }
                )
        for part in range(3):
            at = start + lasted * (part + 1) / 3 * second
            at_step = first_step + step // attempts * (part + 1) // 3
            summary["checkpoints"].append(
                {
                    "name": f"step-{at_step:012}-t{attempt}-g1",
                    "step": at_step,
                    "at": stamp(at),
                    "bytes": 531_000_000,
                    "verified": not last or part < 2,
                    "there": last or attempt == attempts - 1,
                }
            )
            event("saved", at, attempt, at_step, f"saved step-{at_step:012}-t{attempt}-g1, 531 MB in 0.24 s")
        if ended:
            event(
                "requeued" if not last else {"finished": "finished", "failed": "gave_up"}.get(state, "stopped"),
                end,
                attempt,
                first_step + step // attempts,
                summary["attempts"][-1]["why"],
            )
    summary["events"].sort(key=lambda one: one["at"])
    summary["lanes"], summary["generations"] = summary["lanes"][-lanes_at_most:], summary["generations"][-1000:]
    summary["checkpoints"], summary["events"] = summary["checkpoints"][-500:], summary["events"][-300:]
    if lost:
        summary["warnings"] = [
            {
                "at": summary["events"][-2]["at"],
                "level": "warning",
                "text": "trainer w0-e930003.1-1 was lost: killed by signal 9; the others go on",
            }
        ]
    curves = metric_curves(steps, max(1, steps // 8))
    summary["metrics"] = sorted(curves)
    summary["loss"] = curves["loss"].value(step)
    return Run(name, summary, curves, build)
