"""One process of PyTorch DistributedDataParallel over Gloo: the step that bench/compare.py compares Rekindle's with. The variant
"alone" computes forward and backward pass alone, without exchange and update: the bound of every step.

The input is ready tensors, drawn before the first step, so DDP spends no time on reading and augmenting images (Rekindle's
step times include both). A step's time runs from update to update, as Rekindle's step_ms does. Rank 0 prints the times in ms
as a JSON list.
"""
import argparse
import json
import time

import torch
import torch.distributed as dist

from models import MODELS

TUNED = ({"gradient_as_bucket_view": True, "static_graph": True}, {"fused": True})
VARIANTS = {"default": ({}, {}), "tuned": TUNED, "channels_last": TUNED, "alone": ({}, {})}
CHANNELS_LAST = ("channels_last", "alone")  # images and filters in NHWC


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    for name in ("rank", "processes", "threads", "images", "image-size", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--store", required=True, help="a file that all processes see, and that does not exist yet")
    args = parser.parse_args()
    ddp_options, optimizer_options = VARIANTS[args.variant]

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    dist.init_process_group("gloo", f"file://{args.store}", rank=args.rank, world_size=args.processes)
    row = MODELS[args.model]
    memory_format = torch.channels_last if args.variant in CHANNELS_LAST else torch.contiguous_format
    model = row.make().to(memory_format=memory_format)
    if args.variant != "alone":
        model = torch.nn.parallel.DistributedDataParallel(model, **ddp_options)
    optimizer = row.optimizer(model.parameters(), **optimizer_options)
    criterion = torch.nn.CrossEntropyLoss()

    def batch():
        inputs, targets = row.batch(args.images, args.image_size)
        return (inputs.contiguous(memory_format=memory_format) if inputs.dim() == 4 else inputs), targets

    batches = [batch() for _ in range(args.steps)]

    times_ms = []
    dist.barrier()
    last = time.perf_counter()
    for images, labels in batches:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        if args.variant != "alone":
            optimizer.step()
        loss.item()
        now = time.perf_counter()
        times_ms.append(1000 * (now - last))
        last = now
    if args.rank == 0:
        print(json.dumps(times_ms))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
