"""What a plain LibTorch forward and backward of one micro-batch needs beside parameters and gradients, in bytes: activations and
their gradients, workspaces, what oneDNN keeps, and the code that both touch. bench/compare.py puts it into the budget.

One process, the allocator's defaults (freed blocks go back, so the peak is what was live), the peak resident size of two
steps minus the resident size before them, minus the gradients.
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
        clear.write("5")  # the peak starts again from here: proc(5)
    before = resident_bytes("VmRSS")
    for _ in range(2):
        model.zero_grad()
        criterion(model(images), labels).backward()
    peak = resident_bytes("VmHWM")
    gradients = sum(parameter.grad.nbytes for parameter in model.parameters())
    print(peak - before - gradients)


if __name__ == "__main__":
    main()
