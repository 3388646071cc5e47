"""The script of `rekindle selftest` where no model in C++ is installed: a small network on made images."""

import torch
from torch import nn
from torch.nn import functional

import rekindle


class Images(torch.utils.data.Dataset):
    """A bright row, whose place is the label, in noise of its own for each epoch."""

    def __len__(self):
        return 500

    def __getitem__(self, index):
        image = 0.3 * torch.randn(1, 10, 10)
        image[0, index % 10] += 1.0
        return image, index % 10


def model():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(800, 10)
    )


def loss(network, batch):
    images, labels = batch
    return functional.cross_entropy(network(images), labels)


rekindle.run(model=model, loss=loss, train_data=Images, optimizer=rekindle.SGD(lr=0.05, momentum=0.9), epochs=1)
