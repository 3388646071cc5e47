"""PyTorch's MNIST example (https://github.com/pytorch/examples/blob/main/mnist/main.py), trained by Rekindle.

    python mnist.py                       2 workers, on this machine; downloads MNIST to data/
    rekindle local --workers 4 mnist.py   the same with 4
"""

import argparse

import torch
from torch import nn
from torch.nn import functional
from torchvision import datasets, transforms

import rekindle

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="data")
arguments = parser.parse_args()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = functional.relu(self.conv1(x))
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.dropout(x.flatten(1), 0.25, self.training)
        x = functional.dropout(functional.relu(self.fc1(x)), 0.5, self.training)
        return self.fc2(x)


def mnist(train):
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    return datasets.MNIST(arguments.data, train=train, download=True, transform=transform)


def loss(model, batch):
    images, labels = batch
    return functional.cross_entropy(model(images), labels)


def metrics(model, batch):
    images, labels = batch
    return {"accuracy": ((model(images).argmax(1) == labels).sum().item(), len(labels))}


run = rekindle.run(
    model=Net,
    loss=loss,
    train_data=lambda: mnist(train=True),
    test_data=lambda: mnist(train=False),
    metrics=metrics,
    optimizer=rekindle.Adadelta(lr=1.0),
    schedule=rekindle.Step(epochs=1, gamma=0.7),
    batch_size=64,
    epochs=14,
    run_dir="runs/mnist",
    workers=2,
)
# Only `python mnist.py` comes here.
print("accuracy after each epoch:", [value for value in run.metrics()["test_accuracy"] if value == value])
torch.save(rekindle.load(run.path, Net()).state_dict(), "mnist_cnn.pt")
