"""The program's mnist-cnn and resnet18 in Python. Trained from the same weights and samples, they end with the same bits
as the program's (C++ trainers).

Both lay out their images as the program does (in_channels_last). MnistCnn consists of PyTorch's layers. Resnet18 does not:
its Convolution repeats how the program computes the gradient of a large weight, without which its bits would differ.

    rekindle local --run-dir DIR tests/python/twins.py MODEL DATA [NAME=VALUE...]    (for run())
"""

import ast
import pathlib
import sys

import numpy
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

import rekindle


def in_channels_last(images):
    """The strides of images with one channel can mean both formats, and torch takes the other one."""
    images, (_, channels, height, width) = images.contiguous(memory_format=torch.channels_last), images.shape
    return images.as_strided(images.shape, (height * width, 1, width, 1)) if channels == 1 else images


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, images):
        x = functional.relu(self.conv1(in_channels_last(images)))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        x = functional.dropout(x.flatten(1), 0.25, self.training)
        x = functional.relu(self.fc1(x))
        return self.fc2(functional.dropout(x, 0.5, self.training))


class Convolution(torch.autograd.Function):
    """The program's convolution (model/ops.cpp), which differs from PyTorch's in one gradient: that of a weight with more
    elements than its input has. oneDNN sums it in another order from NCHW than from channels_last, and a third faster."""

    @staticmethod
    def forward(context, x, weight, stride, padding):
        context.save_for_backward(x, weight)
        context.stride, context.padding = stride, padding
        return functional.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def backward(context, dy):
        x, weight = context.saved_tensors

        def gradients(dy, x, wanted):
            return torch.ops.aten.convolution_backward(
                dy, x, weight, None, context.stride, context.padding, (1, 1), False, (0, 0), 1, wanted
            )  # fmt: skip

        dx = context.needs_input_grad[0]
        if x.numel() > weight.numel():
            return *gradients(dy, x, (dx, True, False))[:2], None, None
        dw = gradients(dy.contiguous(), x.contiguous(), (False, True, False))[1]
        return gradients(dy, x, (True, False, False))[0] if dx else None, dw, None, None


class Conv2d(nn.Conv2d):
    def forward(self, x):
        return Convolution.apply(x, self.weight, self.stride, self.padding)


class Block(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or channels != width:
            self.downsample = nn.Sequential(Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class Resnet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        channels = 64
        for group, width in enumerate((64, 128, 256, 512)):
            blocks = [Block(channels, width, 2 if group else 1), Block(width, width, 1)]
            self.add_module(f"layer{group + 1}", nn.Sequential(*blocks))
            channels = width
        self.fc = nn.Linear(512, 10)

    def forward(self, images):
        x = functional.relu(self.bn1(self.conv1(in_channels_last(images))))
        x = functional.max_pool2d(x, 3, 2, 1)
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return self.fc(x.mean((2, 3)))


def mnist(folder):
    images = numpy.fromfile(folder / "train-images-idx3-ubyte", numpy.uint8)[16:].reshape(-1, 1, 28, 28)
    return images, numpy.fromfile(folder / "train-labels-idx1-ubyte", numpy.uint8)[8:], (0.1307,), (0.3081,)


def images(folder):
    """PNG files of 37 x 37 pixels: at --image-size 32 the program resizes to 37, and takes the center."""
    files = sorted((folder / "train").rglob("*.png"))
    pixels = numpy.stack([numpy.asarray(Image.open(file).convert("RGB")) for file in files])
    names = sorted({file.parent.name for file in files})
    labels = numpy.array([names.index(file.parent.name) for file in files])
    return pixels[:, 2:34, 2:34].transpose(0, 3, 1, 2).copy(), labels, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def samples(read, folder):
    """As torchvision's ToTensor and Normalize make them."""
    images, labels, mean, std = read(folder)
    mean, std = (torch.tensor(values).reshape(-1, 1, 1) for values in (mean, std))
    return torch.utils.data.TensorDataset((torch.from_numpy(images) / 255 - mean) / std, torch.from_numpy(labels).long())


def loss(model, batch):
    images, labels = batch
    return functional.cross_entropy(model(images), labels)


model, read = {"mnist-cnn": (MnistCnn, mnist), "resnet18": (Resnet18, images)}[sys.argv[1]]
options = {name: ast.literal_eval(value) for name, _, value in (word.partition("=") for word in sys.argv[3:])}
rekindle.run(
    model=model, loss=loss, train_data=lambda: samples(read, pathlib.Path(sys.argv[2])),
    optimizer=rekindle.SGD(lr=0.05, momentum=0.9), **options,
)  # fmt: skip
