#!/usr/bin/env python3
"""The 8x8 handwritten digits that ship with scikit-learn, as MNIST's four IDX files or as folders of JPEG files.

Needs scikit-learn, for JPEG files also Pillow. Usage: digits.py OUTPUT_DIRECTORY [--jpeg]
1797 scans (UCI, Alpaydin and Kaynak 1998). Each pixel becomes a block of 3x3 equal pixels and a margin of 2 is added, which
makes 28x28; values 0..16 become 0..255, rounded to the nearest. As JPEG files (quality 95) the images are resized to 64x64,
bilinearly, in train/DIGIT/ and val/DIGIT/. Every fifth sample, from the first on, is a test sample.
"""
import pathlib
import struct
import sys

import numpy
from sklearn.datasets import load_digits


def write_idx(path, array):
    """Magic 0x08 (unsigned bytes) and the number of dimensions, then big-endian sizes, then the bytes."""
    header = struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape)
    path.write_bytes(header + array.astype(numpy.uint8).tobytes())


def write_jpeg(directory, images, labels):
    from PIL import Image

    for i, (image, label) in enumerate(zip(images, labels)):
        folder = directory / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        pixels = Image.fromarray(image.astype(numpy.uint8)).resize((64, 64), Image.Resampling.BILINEAR)
        pixels.convert("RGB").save(folder / f"{i:04d}.jpg", quality=95)


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    if sys.argv[2:] == ["--jpeg"]:
        images, test = numpy.rint(digits.images * 255 / 16), numpy.arange(len(digits.images)) % 5 == 0
        for name, chosen in (("train", ~test), ("val", test)):
            write_jpeg(directory / name, images[chosen], digits.target[chosen])
        return
    blocks = digits.images.repeat(3, axis=1).repeat(3, axis=2)
    images = numpy.rint(numpy.pad(blocks, ((0, 0), (2, 2), (2, 2))) * 255 / 16)
    test = numpy.arange(len(images)) % 5 == 0
    for name, chosen in (("train", ~test), ("t10k", test)):
        write_idx(directory / f"{name}-images-idx3-ubyte", images[chosen])
        write_idx(directory / f"{name}-labels-idx1-ubyte", digits.target[chosen])
    print(f"{directory}: {(~test).sum()} training and {test.sum()} test images")


if __name__ == "__main__":
    sys.exit(__doc__) if sys.argv[2:] not in ([], ["--jpeg"]) or len(sys.argv) < 2 else main()
