"""resnet50 in bfloat16 that reads JPEG files through torchvision's loader, for a comparison with Rekindle on one GPU.

    python3 bench/gpu_input.py make FOLDER              an image-folder: 500 x 375 pixels, few contents under many names
    python3 bench/gpu_input.py time FOLDER [--workers 2]

The second prints a JSON line: images per second over the steps that count, input included. Random resized crop to 224 pixels,
flip, normalisation, 128 images a step, pinned memory; the model is bench/gpu_baseline.py's channels_last.
"""
import argparse
import itertools
import json
import os
import pathlib
import shutil
import time

from images import QUALITY, photograph

CONTENTS, FILES, BATCH = 96, 9600, 128


def make(folder):
    import numpy as np
    rng = np.random.default_rng(1)
    for split, files in (("train", FILES), ("val", 20)):
        for i in range(files):
            path = folder / split / str(i % 10) / f"{i:05}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            if split == "train" and i >= CONTENTS:
                shutil.copyfile(folder / split / str(i % CONTENTS % 10) / f"{i % CONTENTS:05}.jpg", path)
            else:
                photograph(rng, 500, 375).save(path, quality=QUALITY)


def measure(folder, workers, warmup, steps):
    import torch
    import torchvision
    from torchvision import datasets, transforms
    torch.backends.cudnn.benchmark = True
    dataset = datasets.ImageFolder(folder / "train", transforms.Compose([
        transforms.RandomResizedCrop(224, antialias=True), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]))  # fmt: skip
    loader = torch.utils.data.DataLoader(dataset, BATCH, shuffle=True, num_workers=workers, pin_memory=True,
                                         drop_last=True, persistent_workers=True)  # fmt: skip
    model = torchvision.models.resnet50(num_classes=10).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=5e-4, fused=True)
    began, done = 0.0, 0
    for images, labels in itertools.islice(itertools.chain.from_iterable(itertools.repeat(loader)), warmup + steps):
        images = images.cuda(non_blocking=True).contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        done += 1
        if done == warmup:
            torch.cuda.synchronize()
            began = time.perf_counter()
    torch.cuda.synchronize()
    return BATCH * steps / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "time"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=2, help="processes of the loader (%(default)s)")
    parser.add_argument("--warmup", type=int, default=8, help="first steps that do not count (%(default)s)")
    parser.add_argument("--steps", type=int, default=24, help="steps that count (%(default)s)")
    options = parser.parse_args()
    if options.what == "make":
        make(options.folder)
        return
    speed = measure(options.folder, options.workers, options.warmup, options.steps)
    print(json.dumps({"model": "resnet50", "precision": "bf16", "workers": options.workers, "processors": os.cpu_count(),
                      "images_per_second": round(speed, 1)}))  # fmt: skip


if __name__ == "__main__":
    main()
