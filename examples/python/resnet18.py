"""torchvision's resnet18 on folders of images, with torchvision's own transforms.

    rekindle local --workers 2 resnet18.py FOLDER     FOLDER/train/CLASS/... and FOLDER/val/CLASS/...

As PyTorch's ImageNet example (https://github.com/pytorch/examples/blob/main/imagenet/main.py).
"""

import argparse
from pathlib import Path

from torch.nn import functional
from torchvision import datasets, models, transforms

import rekindle

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--image-size", type=int, default=224)
arguments = parser.parse_args()

normalize = transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
for_training = transforms.Compose([
    transforms.RandomResizedCrop(arguments.image_size), transforms.RandomHorizontalFlip(), transforms.ToTensor(), normalize,
])  # fmt: skip
for_test = transforms.Compose([
    transforms.Resize(arguments.image_size * 8 // 7), transforms.CenterCrop(arguments.image_size), transforms.ToTensor(), normalize,
])  # fmt: skip


def images(part, transform):
    return datasets.ImageFolder(arguments.folder / part, transform)


def loss(model, batch):
    pixels, labels = batch
    return functional.cross_entropy(model(pixels), labels)


def metrics(model, batch):
    pixels, labels = batch
    best = model(pixels).topk(min(5, classes), 1).indices == labels[:, None]
    return {"accuracy": (best[:, 0].sum().item(), len(labels)), "top5": (best.sum().item(), len(labels))}


classes = len(images("train", None).classes)
rekindle.run(
    model=lambda: models.resnet18(num_classes=classes),
    loss=loss,
    train_data=lambda: images("train", for_training),
    test_data=lambda: images("val", for_test),
    metrics=metrics,
    optimizer=rekindle.SGD(lr=0.1, momentum=0.9, weight_decay=1e-4),
    schedule=rekindle.Step(epochs=30, gamma=0.1),
    batch_size=256,
    epochs=90,
    run_dir="runs/resnet18",
    loader_threads=4,
)
