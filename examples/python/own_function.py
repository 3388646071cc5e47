"""A custom autograd function and a weight that two layers share.

    rekindle local own_function.py
"""

import torch
from torch import nn
from torch.nn import functional

import rekindle


class Swish(torch.autograd.Function):
    """x * sigmoid(x), which keeps x alone for the backward pass."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return gradient * (s + x * s * (1 - s))


class AutoEncoder(nn.Module):
    """The decoder's weight is the encoder's, transposed."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(32, 8)
        self.bias = nn.Parameter(torch.zeros(32))

    def forward(self, x):
        return functional.linear(Swish.apply(self.encoder(x)), self.encoder.weight.t(), self.bias)


class Waves(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        return torch.sin(torch.linspace(0, 6.28, 32) * (1 + index % 3) + index)


rekindle.run(
    model=AutoEncoder,
    loss=lambda model, batch: functional.mse_loss(model(batch), batch),
    train_data=Waves,
    optimizer=rekindle.SGD(lr=0.1, momentum=0.9),
    batch_size=50,
    micro_batches=2,
    epochs=20,
    run_dir="runs/own_function",
)
