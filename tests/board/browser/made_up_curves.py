"""Made-up curves, thinned as docs/board.md says. Two equal calls make equal values."""

import math

BLOCK = 256  # steps of one block of a long curve's pyramid


def noise(step, salt):
    """From -0.5 to 0.5, the same for the same step."""
    bits = (step * 2654435761 + salt * 40503) & 0xFFFFFFFF
    bits = (bits ^ (bits >> 15)) * 2246822519 & 0xFFFFFFFF
    return ((bits ^ (bits >> 13)) & 0xFFFFFFFF) / 2**32 - 0.5


class Curve:
    """The values of one metric at the steps stride, 2 * stride, ... up to `last`."""

    def __init__(self, value, stride=1):
        self.value, self.stride, self.blocks = value, stride, []

    def build(self, last):
        """Minimum, mean and maximum of the blocks, so that a run of a million steps answers at once."""
        for first in range(len(self.blocks) * BLOCK + 1, last - BLOCK + 2, BLOCK):
            values = [self.value(step) for step in range(first, first + BLOCK)]
            self.blocks.append((min(values), sum(values) / BLOCK, max(values)))

    def thinned(self, begin, end, points):
        steps = range(max(self.stride, math.ceil(begin / self.stride) * self.stride), end + 1, self.stride)
        if len(steps) <= points:
            return {"step": list(steps), "value": [round(self.value(s), 6) for s in steps]}, True
        per = math.ceil(len(steps) / points)
        result = {"step": [], "min": [], "mean": [], "max": []}
        if per >= BLOCK and self.stride == 1:
            per = math.ceil(per / BLOCK)
            groups = [
                range(i, min(i + per, len(self.blocks))) for i in range((begin + BLOCK - 1) // BLOCK, end // BLOCK, per)
            ]
            parts = [([self.blocks[i] for i in g], (g[-1] + 1) * BLOCK) for g in groups if len(g)]
            parts = [
                ((min(b[0] for b in bs), sum(b[1] for b in bs) / len(bs), max(b[2] for b in bs)), s) for bs, s in parts
            ]
        else:
            parts = []
            for first in range(0, len(steps), per):
                some = steps[first : first + per]
                values = [self.value(step) for step in some]
                parts.append(((min(values), sum(values) / len(values), max(values)), some[-1]))
        for (low, mean, high), step in parts:
            result["step"].append(step)
            for name, value in (("min", low), ("mean", mean), ("max", high)):
                result[name].append(round(value, 5))
        return result, False


def metric_curves(steps, every):
    """Curves of a run of `steps` steps that is evaluated each `every` steps."""

    def loss(step):
        spike = 1.6 if noise(step, 9) > 0.4996 else 0.0
        return 0.3 + 2.0 * math.exp(-6 * step / steps) + 0.18 * noise(step, 1) + spike

    def accuracy(step):
        return min(0.995, 0.93 - 0.8 * math.exp(-5 * step / steps) + 0.06 * noise(step, 2))

    def speed(step):
        slow = 0.62 if 0.52 < step / steps < 0.56 else 1.0
        return 396 * slow * (1 + 0.05 * noise(step, 3))

    return {
        "loss": Curve(loss),
        "accuracy": Curve(accuracy),
        "images_per_second": Curve(speed),
        "lr": Curve(lambda step: 0.1 * (1 - step / steps) + 1e-5),
        "step_ms": Curve(lambda step: 128000 / speed(step)),
        "test_loss": Curve(lambda step: 0.36 + 2.0 * math.exp(-6 * step / steps) + 0.05 * noise(step, 4), every),
        "test_accuracy": Curve(lambda step: 0.91 - 0.8 * math.exp(-5 * step / steps) + 0.01 * noise(step, 5), every),
    }
