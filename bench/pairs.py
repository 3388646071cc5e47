"""The order of turns, and figures of them: values only; no process and no clock. Standard library only.

Other programs and the weather of a shared machine change its speed within minutes. So times are compared only within a pair:
one turn of the program that is measured (the base) and one of another program, right after each other. In the next round, the
other one is first. The figure is the median over the ratios of all pairs, and the spread is the least and the largest ratio.
A turn of the base may belong to two pairs, with the turn before it and the turn after it:

    round 1    a base b    c base
    round 2    base c    b base a
"""
import dataclasses
import statistics


def blocks(base, others, number):
    """The turns of round `number` (from 1), in order: blocks of two or three names that follow each other."""
    groups = [others[i : i + 2] for i in range(0, len(others), 2)]
    forwards = [[group[0], base, *group[1:]] for group in groups]
    return forwards if number % 2 else [block[::-1] for block in forwards[::-1]]


def alternate(base, others, rounds, run):
    """Makes all turns: `run(name, number)` is one of round `number`, and returns what a turn has.

    Returns for each of `others` its pairs: (turn of the base, turn of the other) for each round.
    """
    found = {name: [] for name in others}
    for number in range(1, rounds + 1):
        for block in blocks(base, others, number):
            turns = {name: run(name, number) for name in block}
            for name in block:
                if name != base:
                    found[name].append((turns[base], turns[name]))
    return found


@dataclasses.dataclass(frozen=True)
class Row:
    """One figure: the median of its values, and how far they spread."""

    what: str
    unit: str  # "s", "GB"; "" of a ratio
    values: list
    bound: float | None = None  # the goal: at most this

    @property
    def median(self):
        return statistics.median(self.values)

    def as_json(self):
        goal = {} if self.bound is None else {"bound": self.bound}
        return {"what": self.what, "unit": self.unit, "median": self.median, "least": min(self.values),
                "most": max(self.values), "values": list(self.values), **goal}


def ratio_row(base, other, pairs, inverse=False):
    """base / other of each pair of times, or other / base."""
    if inverse:
        return Row(f"{other} / {base}", "", [second / first for first, second in pairs])
    return Row(f"{base} / {other}", "", [first / second for first, second in pairs])


def table(rows):
    """The rows as text, under a line of headings."""
    width = max(len(row.what) for row in rows)
    lines = [f"{'':{width + 4}}{'median':>9}{'least':>9}{'most':>9}{'values':>8}{'at most':>9}"]
    for row in rows:
        bound = "" if row.bound is None else f"{row.bound:9.3f}"
        lines.append(f"{row.what:{width}}{row.unit:>4}{row.median:9.3f}{min(row.values):9.3f}{max(row.values):9.3f}"
                     f"{len(row.values):8}{bound}".rstrip())
    return "\n".join(lines)
