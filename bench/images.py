#!/usr/bin/env python3
"""Images per second of image-folder beside torchvision's ImageFolder, and how long a folder of a million files takes to open.

    ./dev build release bench_images
    REKINDLE_BENCH_PYTHON=... ; $REKINDLE_BENCH_PYTHON bench/images.py [--rounds 7] [--kinds small,large]
    bench/images.py --million [--files 1000000]

The first makes JPEG files of 64 x 64 pixels and of 500 x 375 (noise with the spectrum of photographs), and both sides read
the same ones in turns: one process, one thread, files in the page cache, random resized crop (to 64 and 224 pixels), flip,
normalisation. Needs torch, torchvision, pillow and numpy. The second needs Python alone: 1000 classes of hard links to a few
tiny JPEG files, in /var/tmp or TMPDIR, removed afterwards. Every file is also read once, so that later opens have its hash.
"""
import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time

from commands import must

KINDS = {"small": ((64, 64), 64, 1000), "large": ((500, 375), 224, 120)}  # width and height, output, files
QUALITY = 92
IMAGE = pathlib.Path(__file__).parent.parent / "tests/data/golden/images/grey.jpg"
LINKS = 30_000  # to one file: ext4 has at most 65,000


def photograph(rng, width, height):
    """Noise with amplitudes of 1/f, as photographs have, and some noise of a camera."""
    import numpy as np
    from PIL import Image
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None])
    spectrum = 1 / np.maximum(frequency, 1 / max(width, height))
    grey = np.fft.ifft2(spectrum * np.exp(2j * np.pi * rng.random((height, width)))).real
    planes = [grey + 0.4 * np.fft.ifft2(spectrum * np.exp(2j * np.pi * rng.random((height, width)))).real for _ in range(3)]
    pixels = np.stack(planes, -1)
    pixels = 128 + 55 * pixels / pixels.std() + rng.normal(0, 3, pixels.shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def make_images(folder, size, count):
    """Of two classes; the mean size of a file."""
    import numpy as np
    rng = np.random.default_rng(1)
    total = 0
    for split, files in (("train", count), ("val", 2)):
        for i in range(files):
            path = folder / split / str(i % 2) / f"{i:05}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            photograph(rng, *size).save(path, quality=QUALITY)
            total += path.stat().st_size if split == "train" else 0
    return total / count


def torchvision_reader(folder, size):
    import torch
    from torchvision import datasets, transforms
    torch.set_num_threads(1)
    return datasets.ImageFolder(folder / "train", transforms.Compose([
        transforms.RandomResizedCrop(size, antialias=True), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]))


def read_torchvision(dataset, images):
    """Images per second, and per second of the processor."""
    began, used = time.perf_counter(), time.process_time()
    for i in range(images):
        dataset[i % len(dataset)]
    return images / (time.perf_counter() - began), images / (time.process_time() - used)


def read_rekindle(program, folder, size, images, warm_up):
    line = json.loads(must([program, folder, "--image-size", str(size), "--images", str(images), "--warm-up", str(warm_up)]))
    return images / line["read_s"], images / line["processor_s"]


def compare_readers(options, work):
    for kind in options.kinds.split(","):
        pixels, size, count = KINDS[kind]
        mean = make_images(work / kind, pixels, count)
        dataset = torchvision_reader(work / kind, size)
        images = options.passes * count
        read_torchvision(dataset, count)
        seen = {"Rekindle": [], "torchvision": []}
        for _ in range(options.rounds):
            seen["Rekindle"].append(read_rekindle(options.program, work / kind, size, images, count))
            seen["torchvision"].append(read_torchvision(dataset, images))
        print(f"{pixels[0]} x {pixels[1]} pixels, {mean / 1000:.1f} kB a file, to {size}: images per second "
              f"(median of {options.rounds}, slowest, fastest; per second of the processor)")
        for name, turns in seen.items():
            wall, processor = zip(*turns)
            print(f"  {name:12} {statistics.median(wall):8.0f} {min(wall):8.0f} {max(wall):8.0f}"
                  f"{statistics.median(processor):8.0f}")
        ratios = [[own[i] / other[i] for own, other in zip(*seen.values())] for i in range(2)]
        print(f"  ratio, median of the turns: {statistics.median(ratios[0]):.2f} "
              f"({min(ratios[0]):.2f} to {max(ratios[0]):.2f}); "
              f"of processor time {statistics.median(ratios[1]):.2f}", flush=True)


def many_files(folder, files, classes=1000):
    sources = []
    for i in range(files // LINKS + 1):
        sources.append(folder / f"source{i}")
        sources[-1].write_bytes(IMAGE.read_bytes())
    root, made = folder / "root", 0
    for split, share in (("train", 19), ("val", 1)):
        for label in range(classes):
            path = root / split / f"n{label:08}"
            path.mkdir(parents=True)
            for i in range(max(1, files * share // 20 // classes)):
                os.link(sources[made // LINKS], path / f"n{label:08}_{i}.JPEG")
                made += 1
    for path, _, _ in os.walk(root):
        os.utime(path, (1e9, 1e9))  # an index is not kept if a folder has just changed
    return root, made


def open_many(options, work):
    began = time.perf_counter()
    root, made = many_files(work, options.files)
    print(f"{made} files made in {time.perf_counter() - began:.0f} s")
    for what in ("first open", "later open", "later open", "and read all", "later open", "later open"):
        images = made * 19 // 20 if what == "and read all" else 0
        line = json.loads(must([options.program, root, "--image-size", "8", "--images", str(images)]))
        sizes = [f"{name} {(root / name).stat().st_size / 2**20:.1f} MiB" for name in (".rekindle-index", ".rekindle-hashes")]
        print(f"{what:12} {line['open_s']:6.2f} s, peak memory {line['peak_mib']:5.0f} MiB; then {', '.join(sizes)}"
              + (f"; {images / line['read_s']:.0f} images/s" if images else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/bench_images")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each (%(default)s)")
    parser.add_argument("--passes", type=int, default=2, help="over the files in a turn (%(default)s)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="(%(default)s)")
    parser.add_argument("--million", action="store_true", help="open a folder of many files")
    parser.add_argument("--files", type=int, default=1_000_000, help="(%(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rekindle-bench.", dir=os.environ.get("TMPDIR", "/var/tmp")) as work:
        (open_many if options.million else compare_readers)(options, pathlib.Path(work))


if __name__ == "__main__":
    main()
