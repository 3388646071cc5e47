"""The bytes that a plain LibTorch forward and backward of one micro-batch needs besides parameters and gradients: activations
and their gradients, workspaces, oneDNN's caches, and the loaded code. bench/compare.py adds this number to the budget.

Measured in one process with the allocator's defaults (freed blocks are returned, so the peak shows live memory): the peak
resident size of two steps minus the resident size before them, minus the gradients.
"""
import argparse
import re

import torch
import torchvision


def resident_bytes(key):
    with open("/proc/self/status") as status:
        return 1024 * int(re.search(rf"{key}:\s+(\d+)", status.read()).group(1))


def main():
    parser = argparse.ArgumentParser()
    for name in ("threads", "images", "image-size"):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    model = torchvision.models.vgg11(num_classes=10, dropout=0.5)
    criterion = torch.nn.CrossEntropyLoss()
    images = torch.randn(args.images, 3, args.image_size, args.image_size)
    labels = torch.randint(10, (args.images,))
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")  # resets the peak: proc(5)
    before = resident_bytes("VmRSS")
    for _ in range(2):
        model.zero_grad()
        criterion(model(images), labels).backward()
    peak = resident_bytes("VmHWM")
    gradients = sum(parameter.grad.nbytes for parameter in model.parameters())
    print(peak - before - gradients)


if __name__ == "__main__":
    main()
