"""A plain PyTorch loop in one process, with a step of several micro-batches: what bench/python_loop.py compares a script with.

Prints the times of the steps in ms as a JSON list.
"""
import argparse
import json
import time

import torch

from models import MODELS, Samples, loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, required=True)
    for name in ("threads", "images", "image-size", "micro-batches", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    row = MODELS[args.model]
    dataset, model = Samples(args.model, args.image_size), row.make()
    optimizer = row.optimizer(model.parameters(), foreach=True)
    batches = iter(torch.utils.data.DataLoader(dataset, batch_size=args.images, shuffle=True, drop_last=True))
    times_ms = []
    model.train()
    for _ in range(args.steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        for _ in range(args.micro_batches):
            (loss(model, next(batches)) / args.micro_batches).backward()
        optimizer.step()
        times_ms.append(1000 * (time.perf_counter() - began))
    print(json.dumps(times_ms))


if __name__ == "__main__":
    main()
