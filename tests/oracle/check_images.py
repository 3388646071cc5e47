#!/usr/bin/env python3
"""Compares image-folder's pixels with those of PIL and torchvision, and what each of them refuses.

    tests/oracle/check_images.py build/dev/bin/image_pixels [--seed N]

1. JPEG and PNG files of every kind that PIL or this script can write: the pixels of Image.open(path).convert("RGB"), which is
   torchvision's default loader; random parts of them as RandomResizedCrop resizes parts; and the whole of Resize, CenterCrop,
   ToTensor and Normalize. Every value must be within 1 grey level.
2. The same files cut short, or with bytes changed. What PIL refuses must be refused. What PIL accepts must be accepted, unless
   the reason is one of MAY_REFUSE, with PIL's pixels. For the places of a JPEG file that are lost, versions of libjpeg-turbo
   invent different pixels, so these are only reported.

Needs numpy, pillow, torch and torchvision.
"""
import argparse
import collections
import io
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib

import numpy as np
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional

MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
SIZES = [(1, 1), (7, 5), (8, 8), (17, 16), (37, 29), (64, 64), (3, 211), (133, 201), (375, 500)]  # height, width
# PIL ignores the checksum of the pixels of a PNG file, and what comes behind them; in a few JPEG files, a lost end marker.
MAY_REFUSE = ("IDAT: CRC error", "the file ends too early", "PNG unsigned integer out of range", "Premature end of JPEG file")
LOST = "damaged JPEG"
TEM = b"\xff\x01"  # a JPEG marker without content, which libjpeg skips and PIL refuses
PNG = b"\x89PNG\r\n\x1a\n"


class Pixels:
    """The program image_pixels."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *order):
        """An array, or a text that says why the file was refused."""
        self.process.stdin.write(" ".join(map(str, order)).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().decode()
        what, _, rest = line.strip().partition(" ")
        if what == "pixels":
            height, width = map(int, rest.split())
            return np.frombuffer(self.process.stdout.read(3 * height * width), np.uint8).reshape(height, width, 3)
        if what == "floats":
            channels, size = map(int, rest.split())
            data = self.process.stdout.read(4 * channels * size * size)
            return np.frombuffer(data, np.float32).reshape(channels, size, size)
        if what != "refused":
            sys.exit(f"image_pixels ended at {order}: {line}")
        return rest


def picture(rng, height, width, channels):
    """Smooth colours with edges and noise, extremes included."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [128 + 140 * np.sin(x / rng.uniform(2, 40) + y / rng.uniform(2, 40) + c) for c in range(channels)]
    blocks = 60 * ((x // 11 + y // 7) % 2)
    noise = rng.normal(0, 12, (height, width))
    return np.clip(np.stack([wave + blocks + noise for wave in waves], axis=-1), 0, 255).astype(np.uint8)


def chunk(kind, data, damage=0):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data) ^ damage)


def packed_rows(samples, bits):
    """Scan lines without filter. `samples`: height x width x channels."""
    rows = []
    for row in samples:
        flat = row.reshape(-1)
        if bits == 16:
            packed = flat.astype(">u2").tobytes()
        else:
            each = np.unpackbits(flat.astype(np.uint8)[:, None], axis=1)[:, 8 - bits:]
            packed = np.packbits(each.reshape(-1)).tobytes()
        rows.append(b"\0" + packed)
    return b"".join(rows)


def png(samples, bits, colour, extra=b"", interlaced=False):
    """What PIL cannot write: all depths, interlacing (Adam7), any chunk before the pixels."""
    height, width = samples.shape[:2]
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    parts = [samples[y::dy, x::dx] for y, x, dy, dx in passes]
    raw = b"".join(packed_rows(part, bits) for part in parts if part.size)
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, int(interlaced))
    return PNG + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def encoded(image, **options):
    out = io.BytesIO()
    image.save(out, **options)
    return out.getvalue()


def jpegs(rng, height, width):
    colour, grey = Image.fromarray(picture(rng, height, width, 3)), Image.fromarray(picture(rng, height, width, 1)[..., 0])
    cmyk = Image.fromarray(picture(rng, height, width, 4), "CMYK")
    turned = Image.Exif()
    turned[0x0112] = 6  # Orientation, which torchvision's loader ignores
    for name, image in (("colour", colour), ("grey", grey), ("cmyk", cmyk)):
        for quality in (5, 75, 95, 100):
            yield f"{name}, quality {quality}", encoded(image, format="JPEG", quality=quality)
        yield f"{name}, progressive", encoded(image, format="JPEG", progressive=True)
    for subsampling in ("4:4:4", "4:2:2", "4:2:0"):
        for progressive in (False, True):
            yield (f"{subsampling}, progressive: {progressive}",
                   encoded(colour, format="JPEG", subsampling=subsampling, progressive=progressive))
    yield "RGB, not YCbCr", encoded(colour, format="JPEG", keep_rgb=True)
    yield "restart markers", encoded(colour, format="JPEG", restart_marker_blocks=2)
    yield "best Huffman tables", encoded(colour, format="JPEG", optimize=True)
    yield "EXIF, turned", encoded(colour, format="JPEG", exif=turned)
    yield "a comment and a profile", encoded(colour, format="JPEG", comment=b"x" * 300, icc_profile=b"y" * 70000)
    inked = encoded(cmyk, format="JPEG")
    adobe = inked.index(b"Adobe")
    yield "YCCK", inked[:adobe + 11] + b"\x02" + inked[adobe + 12:]


def pngs(rng, height, width):
    colour, grey = Image.fromarray(picture(rng, height, width, 3)), Image.fromarray(picture(rng, height, width, 1)[..., 0])
    yield "colour", encoded(colour, format="PNG")
    yield "grey", encoded(grey, format="PNG")
    yield "one bit", encoded(grey.convert("1"), format="PNG")
    for mode, channels in (("RGBA", 4), ("LA", 2)):
        yield mode, encoded(Image.fromarray(picture(rng, height, width, channels), mode), format="PNG")
    for bits in (1, 2, 4, 8):
        palette = colour.convert("P", palette=Image.ADAPTIVE, colors=2**bits)
        yield f"palette of {bits} bits", encoded(palette, format="PNG", bits=bits)
        yield f"palette of {bits} bits, one transparent", encoded(palette, format="PNG", bits=bits, transparency=1)
        yield f"palette of {bits} bits, half transparent", encoded(palette, format="PNG", bits=bits, transparency=b"\x80\x10")
    yield "EXIF and texts", png(np.asarray(colour), 8, 2, chunk(b"tEXt", b"a\0b") + chunk(b"gAMA", struct.pack(">I", 45455)))
    for colour_type, channels, depths in ((0, 1, (1, 2, 4, 8)), (2, 3, (8, 16)), (4, 2, (8, 16)), (6, 4, (8, 16))):
        for bits in depths:
            samples = rng.integers(0, 2**bits, (height, width, channels))
            for interlaced in (False, True):
                yield (f"colour type {colour_type}, {bits} bits, interlaced: {interlaced}",
                       png(samples, bits, colour_type, interlaced=interlaced))
            if colour_type in (0, 2):
                one = struct.pack(f">{channels}H", *samples[0, 0])
                yield f"colour type {colour_type}, {bits} bits, tRNS", png(samples, bits, colour_type, chunk(b"tRNS", one))


def files(seed):
    rng = np.random.default_rng(seed)
    for height, width in SIZES:
        for name, data in jpegs(rng, height, width):
            yield f"JPEG {height} x {width}, {name}", data
        for name, data in pngs(rng, height, width):
            yield f"PNG {height} x {width}, {name}", data


def pil(data):
    """An RGB image, or why PIL refuses it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Image.open(io.BytesIO(data)).convert("RGB")
    except Exception as error:  # PIL raises many kinds
        return f"{type(error).__name__}: {error}"


class Check:
    def __init__(self, program, folder, seed):
        self.ours, self.path, self.random = Pixels(program), folder / "image", random.Random(seed)
        self.failures, self.seen, self.worst = [], collections.Counter(), collections.Counter()

    def compare(self, what, name, expected, found, unit=1.0):
        self.seen[what] += 1
        if isinstance(found, str):
            self.failures.append(f"{name}: {what}: refused: {found}")
        elif found.shape != expected.shape:
            self.failures.append(f"{name}: {what}: {found.shape} instead of {expected.shape}")
        else:
            apart = float((np.abs(found.astype(np.float64) - expected) / unit).max())
            self.worst[what] = max(self.worst[what], apart)
            if apart > 1 + 1e-4 and what != LOST:
                self.failures.append(f"{name}: {what}: {apart:.2f} grey levels apart")

    def whole(self, name, data):
        image = pil(data)
        if isinstance(image, str):
            sys.exit(f"PIL refuses what this script wrote: {name}: {image}")
        self.path.write_bytes(data)
        self.compare("decoded", name, np.asarray(image), self.ours.ask("decode", self.path))
        for _ in range(2):
            height, width = (self.random.randint(1, side) for side in (image.height, image.width))
            top, left = self.random.randint(0, image.height - height), self.random.randint(0, image.width - width)
            side = self.random.choice((5, 16, 64, 224))
            part = functional.resized_crop(image, top, left, height, width, [side, side], antialias=True)
            self.compare("resized part", name, np.asarray(part),
                         self.ours.ask("part", top, left, height, width, side, side, self.path))
        size = self.random.choice((14, 32, 64, 224))
        steps = [transforms.Resize(int(size * 256 / 224 + 0.5), antialias=True), transforms.CenterCrop(size),
                 transforms.ToTensor(), transforms.Normalize(MEAN.tolist(), STD.tolist())]
        self.compare("resized, cropped and normalised", name, transforms.Compose(steps)(image).numpy(),
                     self.ours.ask("view", size, self.path), (1 / 255 / STD)[:, None, None])

    def damaged(self, name, data):
        image = pil(data)
        self.path.write_bytes(data)
        found = self.ours.ask("decode", self.path)
        answers = ["refused" if isinstance(answer, str) else "accepted" for answer in (image, found)]
        kind = f"{answers[0]} by PIL, {answers[1]} here"
        self.seen[kind] += 1
        if isinstance(image, str) and not isinstance(found, str):
            if TEM not in data:
                self.failures.append(f"{name}: accepted, but PIL says: {image}")
        elif not isinstance(image, str) and isinstance(found, str):
            if not any(reason in found for reason in MAY_REFUSE):
                self.failures.append(f"{name}: PIL accepts it, but: {found}")
        elif not isinstance(image, str):
            self.compare("damaged PNG" if data.startswith(PNG) else LOST, name, np.asarray(image), found)

    def damage(self, name, data, times):
        for keep in [len(data) - 1, len(data) - 3, *(self.random.randint(1, len(data) - 1) for _ in range(times))]:
            self.damaged(f"{name}, {keep} of {len(data)} bytes", data[:keep])
        for _ in range(times):
            bad = bytearray(data)
            count = self.random.choice((1, 1, 4))
            changes = {self.random.randrange(len(bad)): self.random.randrange(256) for _ in range(count)}
            for at, value in changes.items():
                bad[at] = value
            self.damaged(f"{name}, of {len(bad)} bytes changed {changes}", bytes(bad))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--damaged", type=int, default=6, help="of each file: so many short and so many changed ones")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        check = Check(options.program, pathlib.Path(folder), options.seed)
        for name, data in files(options.seed):
            check.whole(name, data)
            if len(data) < 20000:
                check.damage(name, data, options.damaged)
    for what, count in check.seen.items():
        print(f"{count:6} {what}" + (f": at most {check.worst[what]:.2f} grey levels apart" if what in check.worst else ""))
    print("\n".join(check.failures))
    sys.exit(1 if check.failures else 0)


if __name__ == "__main__":
    main()
