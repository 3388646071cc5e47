"""What is drawn of a real run, compared with its metrics.jsonl."""

import json


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def close(drawn, wanted):
    return abs(drawn - wanted) <= 1e-4 * max(1, abs(wanted))


def points_of(curve, begin=0):
    """(the first step after the point before it, its step, its values by the names of the parts)."""
    parts = [part for part in ("value", "min", "mean", "max") if part in curve]
    for rows in zip(*(curve[part] for part in parts)):
        step = rows[0][0]
        yield begin, step, {part: value for part, (_, value) in zip(parts, rows)}
        begin = step + 1


def compare_curves(drawn, record, begin=0):
    """Every step on record from `begin` to the newest one that is drawn is in a point, and no point is without a record."""
    count = 0
    for name, curve in drawn.items():
        known, last = record.get(name, {}), 0
        for first, step, values in points_of(curve, begin):
            behind = [known[each] for each in range(first, step + 1) if each in known]
            if "value" in values and (len(behind) != 1 or step not in known):
                raise SystemExit(f"on_record: {name}: steps {first} to {step} are one value, on record are {len(behind)}")
            wanted = dict(value=known.get(step), min=min(behind, default=None), max=max(behind, default=None),
                          mean=sum(behind) / len(behind) if behind else None)
            for part, value in values.items():
                if wanted[part] is None or not close(value, wanted[part]):
                    raise SystemExit(f"on_record: {name}: {part} at step {step} is {value}, on record {wanted[part]}")
            count, last = count + 1, step
        if not last and known:
            raise SystemExit(f"on_record: {name} has no point")
    return count
