"""PyTorch's DistributedDataParallel on one GPU (one process, NCCL), for a comparison with Rekindle's step.

    python3 bench/gpu_baseline.py [--models vgg11 resnet50] [--modes ...] [--precisions ...] [--limit SECONDS]

Prints a JSON line for each case: images_per_second and ms are of the median step. A step's time runs from update to update, by
CUDA events, and nothing waits for the GPU between two steps. The images are drawn once and lie on the GPU; with --host-input
each step copies a batch from pinned host memory.

The modes: "default" is a plain loop with PyTorch's own settings. "channels_last" has images and filters in NHWC, cuDNN's search
for the fastest algorithms, a fused optimizer, and gradients that are views of DDP's buckets. "compile" is torch.compile of that.
With --deterministic, PyTorch uses deterministic algorithms alone, without the search, as Rekindle does.
"""

import argparse
import gc
import itertools
import json
import os
import statistics
import sys
import tempfile
import time

BEGAN = time.monotonic()
MODELS = ("vgg11", "resnet50")
MODES = ("default", "channels_last", "compile")
PRECISIONS = ("fp32", "tf32", "bf16")
CLASSES = 10  # cifar10, the data set of Rekindle's runs


def options():
    parser = argparse.ArgumentParser(description="PyTorch DDP on one GPU")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--batch-size", type=int, default=128, help="images a step (%(default)s)")
    parser.add_argument("--image-size", type=int, default=224, help="pixels a side (%(default)s)")
    parser.add_argument("--warmup", type=int, default=10, help="first steps that do not count (%(default)s)")
    parser.add_argument("--steps", type=int, default=30, help="steps that count (%(default)s)")
    parser.add_argument("--host-input", action="store_true", help="copy each batch from pinned host memory")
    parser.add_argument("--deterministic", action="store_true", help="deterministic algorithms alone")
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS",
                        help="begin no case later than this after the start; a case with torch.compile takes a minute")
    parser.add_argument("--list", action="store_true", help="print the cases, and do not run them")
    arguments = parser.parse_args()
    if arguments.batch_size < 1 or arguments.warmup < 1 or arguments.steps < 1:
        parser.error("--batch-size, --warmup and --steps must be positive")
    if arguments.deterministic and arguments.image_size != 224:
        parser.error("--deterministic needs --image-size 224: vgg11's pooling is not deterministic with other sizes")
    return arguments


def set_precision(precision):
    """fp32 turns TF32 off for convolutions, too, where PyTorch's default is on."""
    import torch

    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32


class Training:
    """Model, optimizer and batch of one case."""

    def __init__(self, arguments, model, mode, precision):
        import torch
        import torchvision

        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = mode != "default" and not arguments.deterministic
        set_precision(precision)
        self.bf16 = precision == "bf16"
        layout = torch.contiguous_format if mode == "default" else torch.channels_last
        # torchvision's defaults: vgg11 has dropout 0.5, resnet50 has none. Rekindle's are the same.
        made = getattr(torchvision.models, model)(num_classes=CLASSES)
        if arguments.deterministic and model.startswith("vgg"):
            # The backward pass of adaptive pooling is not deterministic. With 224 pixels the pooling changes nothing.
            made.avgpool = torch.nn.Identity()
        made = made.cuda().to(memory_format=layout)
        self.model = torch.nn.parallel.DistributedDataParallel(
            made, device_ids=[0], gradient_as_bucket_view=mode != "default")  # fmt: skip
        if mode == "compile":
            self.model = torch.compile(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001, momentum=0.9, weight_decay=5e-4,
                                         fused=True if mode != "default" else None)  # fmt: skip
        self.criterion = torch.nn.CrossEntropyLoss()
        side = arguments.image_size
        images = torch.randn(arguments.batch_size, 3, side, side).contiguous(memory_format=layout)
        labels = torch.randint(CLASSES, (arguments.batch_size,))
        if arguments.host_input:
            self.batch = images.pin_memory(), labels.pin_memory()
        else:
            self.batch = images.cuda(), labels.cuda()

    def step(self):
        import torch

        # Of a batch that is on the GPU already, cuda() is the batch itself.
        images, labels = (tensor.cuda(non_blocking=True) for tensor in self.batch)
        self.optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=self.bf16):
            loss = self.criterion(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss


def measure(arguments, model, mode, precision):
    import torch

    torch.cuda.reset_peak_memory_stats()
    began = time.monotonic()
    training = Training(arguments, model, mode, precision)
    for _ in range(arguments.warmup):
        loss = training.step()
    torch.cuda.synchronize()
    ready = time.monotonic()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(arguments.steps + 1)]
    marks[0].record()
    for mark in marks[1:]:
        loss = training.step()
        mark.record()
    torch.cuda.synchronize()
    times = [before.elapsed_time(after) for before, after in itertools.pairwise(marks)]
    ms = statistics.median(times)
    return {
        "images_per_second": round(1000 * arguments.batch_size / ms, 1), "ms": round(ms, 3),
        "ms_fastest": round(min(times), 3), "ms_slowest": round(max(times), 3), "loss": loss.item(),
        "memory_bytes": torch.cuda.max_memory_allocated(), "warmup_s": round(ready - began, 1),
    }  # fmt: skip


def clean():
    """So that a case does not find the memory or the compiled code of the case before."""
    import torch

    gc.collect()
    torch._dynamo.reset()
    torch.cuda.empty_cache()


def run(arguments, cases):
    """Runs the cases; returns how many failed."""
    # cuBLAS reads it when its first handle is made, and deterministic algorithms need it.
    if arguments.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    # One process connects to itself, and the machine may have no other network interface.
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(0)
    torch.use_deterministic_algorithms(arguments.deterministic)
    torch.backends.cudnn.deterministic = arguments.deterministic
    # Deterministic mode also fills each new tensor, which Rekindle leaves out.
    torch.utils.deterministic.fill_uninitialized_memory = False
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl", f"file://{folder}/store", rank=0, world_size=1, device_id=torch.device("cuda", 0))
        for case in cases:
            line = dict(zip(("model", "mode", "precision"), case))
            line.update(deterministic=arguments.deterministic, host_input=arguments.host_input)
            if time.monotonic() - BEGAN > arguments.limit:
                line["skipped"] = "the time limit"
            else:
                try:
                    line.update(measure(arguments, *case))
                except Exception as error:  # the other cases may still work
                    line["error"] = f"{type(error).__name__}: {error}"[:500]
                    failed += 1
                clean()
            print(json.dumps(line), flush=True)
        dist.destroy_process_group()
    return failed


def main():
    arguments = options()
    cases = list(itertools.product(arguments.models, arguments.modes, arguments.precisions))
    if arguments.list:
        print("\n".join(" ".join(case) for case in cases))
        return
    if failed := run(arguments, cases):
        sys.exit(f"gpu_baseline: {failed} of {len(cases)} cases failed: see \"error\" above")


if __name__ == "__main__":  # torch.compile may start processes that import this file
    main()
