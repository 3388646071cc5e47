#!/usr/bin/env python3
"""What PIL makes of known images: the golden file of tests/data/resize_test.cpp and transform_test.cpp.

    pip install pillow==12.3.0 numpy
    tests/oracle/pil_resize.py > tests/data/golden/pil_resize.txt

PIL 13 swaps the two passes where the height shrinks by more than twice what the width does, which rounds differently
(37x53 to 21x90 here); for square images all versions agree.

Lines:  resize IN_H IN_W OUT_H OUT_W CRC32 HEX      CRC32 of the resized plane, HEX of the first bytes of its middle row
        view KIND IN_H IN_W SIZE CRC32 FLOAT...     CRC32 of the float32 C x SIZE x SIZE of torchvision's
                                                    Resize, CenterCrop, ToTensor, Normalize; its middle row's first values
"""
import zlib

import numpy as np
import PIL
from PIL import Image

IMAGE_NET = (np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225]))
MNIST = (np.float32([0.1307]), np.float32([0.3081]))


def known_image(channels, height, width):
    """Bytes of a linear congruential generator, made smoother along rows in places: extremes and ramps both occur."""
    out = np.empty(channels * height * width, np.uint8)
    state = 12345
    for i in range(out.size):
        state = (state * 1664525 + 1013904223) % 2**32
        value = state >> 24
        out[i] = 255 if value > 230 else 0 if value < 20 else value
    return out.reshape(channels, height, width)


def resize(plane, height, width):
    return np.asarray(Image.fromarray(plane).resize((width, height), Image.BILINEAR))


def view(kind, image, size):
    mean, std = MNIST if kind == "mnist" else IMAGE_NET
    side = size if kind == "mnist" else int(size * 256 / 224 + 0.5)
    _, h, w = image.shape
    height, width = (side, int(side * w / h)) if h <= w else (int(side * h / w), side)
    top, left = int(round((height - size) / 2.0)), int(round((width - size) / 2.0))
    planes = []
    for c, plane in enumerate(image):
        crop = resize(plane, height, width)[top : top + size, left : left + size]
        planes.append((crop.astype(np.float32) / np.float32(255) - mean[c]) / std[c])
    return np.stack(planes)


def main():
    print(f"# tests/oracle/pil_resize.py, PIL {PIL.__version__}")
    sizes = [(32, 32, 256, 256), (28, 28, 32, 32), (32, 32, 73, 73), (32, 32, 32, 32), (32, 32, 37, 32),
             (48, 36, 341, 256), (100, 80, 32, 25), (64, 64, 16, 16), (37, 53, 21, 90), (5, 5, 1, 1), (1, 1, 7, 9),
             (2, 200, 64, 64), (513, 3, 5, 3), (7, 1000, 7, 3), (31, 33, 29, 35)]
    for h, w, out_h, out_w in sizes:
        out = resize(known_image(1, h, w)[0], out_h, out_w)
        print("resize", h, w, out_h, out_w, zlib.crc32(out.tobytes()), out[out_h // 2, :8].tobytes().hex())
    for kind, h, w, size in [("cifar10", 32, 32, 224), ("cifar10", 32, 32, 64), ("cifar10", 32, 32, 32),
                             ("cifar10", 32, 32, 28), ("cifar10", 32, 32, 16), ("cifar10", 40, 32, 67),
                             ("cifar10", 32, 45, 61), ("mnist", 28, 28, 28), ("mnist", 28, 28, 32)]:
        out = view(kind, known_image(1 if kind == "mnist" else 3, h, w), size)
        first = " ".join(f"{x:.9g}" for x in out[0, size // 2, :3])
        print("view", kind, h, w, size, zlib.crc32(out.tobytes()), first)


if __name__ == "__main__":
    main()
