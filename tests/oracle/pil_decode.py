"""Writes small images of each kind to tests/data/golden/images, and beside each what PIL's convert("RGB") makes of it.

Needs Pillow and torchvision. Run in the repository's root: python3 tests/oracle/pil_decode.py
"""

import pathlib

import numpy as np
from PIL import Image

from check_images import png

FOLDER = pathlib.Path("tests/data/golden/images")
WIDTH, HEIGHT = 37, 29


def picture(channels):
    """Smooth colours with edges, so that every block of a JPEG has something to decode."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    planes = [(x * (3 + c) + y * (5 - c) + 60 * ((x // 7 + y // 5 + c) % 2)) % 256 for c in range(channels)]
    return np.stack(planes, axis=-1).astype(np.uint8)


def save(name, image, **options):
    path = FOLDER / name
    image.save(path, **options)
    path.with_suffix(path.suffix + ".rgb").write_bytes(Image.open(path).convert("RGB").tobytes())


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    colour, grey = Image.fromarray(picture(3), "RGB"), Image.fromarray(picture(1)[..., 0], "L")
    save("444.jpg", colour, quality=90, subsampling=0)
    save("420.jpg", colour, quality=75, subsampling=2)
    save("422.jpg", colour, quality=75, subsampling=1)
    save("progressive.jpg", colour, quality=75, progressive=True)
    save("grey.jpg", grey, quality=80)
    save("cmyk.jpg", Image.fromarray(picture(4), "CMYK"), quality=90)
    save("colour.png", colour)
    save("grey.png", grey)
    save("one_bit.png", grey.convert("1"))
    save("palette.png", colour.convert("P", palette=Image.ADAPTIVE, colors=13))
    save("alpha.png", Image.fromarray(picture(4), "RGBA"))
    save("grey_alpha.png", Image.fromarray(picture(2), "LA"))
    transparent = colour.convert("P", palette=Image.ADAPTIVE, colors=5)
    save("transparent.png", transparent, transparency=2)
    deep = FOLDER / "colour_16_bits.png"  # PIL takes the upper 8 bits
    deep.write_bytes(png(picture(3).astype(np.uint16) * 256 + picture(6)[..., 3:], 16, 2, interlaced=True))
    deep.with_suffix(".png.rgb").write_bytes(Image.open(deep).convert("RGB").tobytes())
    Image.fromarray((picture(1)[..., 0].astype(np.uint16) * 257)).save(FOLDER / "16_bits.png")


main()
