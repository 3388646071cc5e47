"""What the budget of a trainer's memory consists of, in bytes, as one line of JSON for bench/compare.py: the parameters, the
optimizer's tensors, and what a plain LibTorch forward and backward of one micro-batch needs besides parameters and gradients
(activations and their gradients, workspaces, oneDNN's caches, and the loaded code).

The last is measured in one process with the allocator's defaults (freed blocks are returned, so the peak shows live memory):
the peak resident size of two steps minus the resident size before them, minus the gradients.
"""
import argparse
import json
import re

import torch

from models import MODELS


def resident_bytes(key):
    with open("/proc/self/status") as status:
        return 1024 * int(re.search(rf"{key}:\s+(\d+)", status.read()).group(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="vgg11")
    for name in ("threads", "images", "image-size"):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    row = MODELS[args.model]
    model = row.make()
    criterion = torch.nn.CrossEntropyLoss()
    inputs, targets = row.batch(args.images, args.image_size)
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")  # resets the peak: proc(5)
    before = resident_bytes("VmRSS")
    for _ in range(2):
        model.zero_grad()
        criterion(model(inputs), targets).backward()
    peak = resident_bytes("VmHWM")
    gradients = sum(parameter.grad.nbytes for parameter in model.parameters())
    parameters = sum(parameter.nbytes for parameter in model.parameters())
    print(json.dumps({"parameters": parameters, "optimizer": row.optimizer.states * parameters,
                      "activations": peak - before - gradients}))


if __name__ == "__main__":
    main()
