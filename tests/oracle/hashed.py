"""Numbers from a hash, so that no file has to hold weights or images: initial values, samples and sketches.

tests/model/golden.hpp has the same formulas in C++. All values are exact in float32, the same on every machine.
"""
import numpy

PHI = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
CHUNK = 1 << 22  # elements hashed at a time
VALUES, IMAGES, LABELS, SIGNS, TOKENS = 1, 2, 3, 4, 5  # what a stream of numbers is for

numpy.seterr(over="ignore")  # the hash wraps around


def mix(z):
    """SplitMix64's finalizer on an array of uint64 (Steele, Lea, Flood 2014)."""
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return z ^ (z >> numpy.uint64(31))


def stream(purpose, part, first, count):
    """Elements [first, first + count) of a stream: mix(key + (i + 1) * PHI)."""
    key = numpy.uint64(((purpose << 32) + part) * PHI & MASK)
    i = numpy.arange(first + 1, first + count + 1, dtype=numpy.uint64)
    return mix(key + i * numpy.uint64(PHI))


def uniform(purpose, part, first, count, bound):
    """Floats in [-bound, bound), exact: 24 bits and two float32 operations."""
    unit = (stream(purpose, part, first, count) >> numpy.uint64(40)).astype(numpy.float32) * numpy.float32(2**-23)
    return (unit - numpy.float32(1)) * numpy.float32(bound)


def integers(purpose, part, count, below):
    return (stream(purpose, part, 0, count) % numpy.uint64(below)).astype(numpy.int64)


def chunks(count):
    return [(first, min(CHUNK, count - first)) for first in range(0, count, CHUNK)]


class Rng:
    """rekindle::Rng of base/random.hpp."""

    def __init__(self, key):
        self.state = key

    def next(self):
        self.state = self.state + PHI & MASK
        return mix_one(self.state)

    def below(self, n):
        limit = MASK - MASK % n
        while (x := self.next()) >= limit:
            pass
        return x % n


def mix_one(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


INIT, ORDER, AUGMENT = 1, 2, 3  # Draws of base/random.hpp


def stream_key(seed, draws, *parts):
    """rekindle::stream_key of base/random.hpp."""
    key = mix_one(seed + PHI * draws & MASK)
    for part in parts:
        key = mix_one(key + PHI * (part + 1) & MASK)
    return key


def rules(tensors):
    """How the initial values of each parameter are drawn; `tensors` are (name, shape) in the model's order. The scale of a
    normalization is followed by its shift."""
    out = []
    for name, shape in tensors:
        if len(shape) > 1:
            out.append("weight")
        elif name.endswith("weight"):
            out.append("scale")
        else:
            out.append("shift" if out and out[-1] == "scale" else "bias")
    return out


def initial(index, rule, shape, first, count):
    """Of the parameter number `index`. A weight has a little less than what keeps the scale of activations through ReLUs
    (6 / fan_in). Scales of about 1/2 and shifts of about 2, or -7 for a quarter of the channels, keep the inputs of ReLUs away
    from 0, also those of a ResNet's sums: a ReLU whose input is within rounding of 0 may decide otherwise on another machine,
    which changes a walk by up to 3 % of its way, a thousand times more than rounding does."""
    if rule == "weight":
        return uniform(VALUES, index, first, count, numpy.float32((4.0 / numpy.prod(shape[1:], dtype=numpy.int64)) ** 0.5))
    if rule == "shift":
        u = uniform(VALUES, index, first, count, 1)
        return numpy.where(u < numpy.float32(-0.5), numpy.float32(-7), numpy.float32(2)) + u * numpy.float32(0.125)
    values = uniform(VALUES, index, first, count, 0.0625)
    return numpy.float32(0.5) + values if rule == "scale" else values


def sketch_size(count):
    return 64 if count > 1 << 20 else 16


def sketch(index, first, values, out):
    """Adds `values`, elements [first, ...) of tensor `index`, to its sketch `out`: each element goes to a random bucket with a
    random sign (the count sketch of Charikar, Chen, Farach-Colton 2002). The norm of the difference of two sketches is an
    estimate of the norm of the difference of the tensors: the square is unbiased with a deviation of sqrt(2 / buckets)."""
    bits = stream(SIGNS, index, first, len(values))
    sign = 1.0 - 2.0 * (bits & numpy.uint64(1)).astype(numpy.float64)
    bucket = ((bits >> numpy.uint64(1)) % numpy.uint64(len(out))).astype(numpy.int64)
    out += numpy.bincount(bucket, values * sign, len(out))
