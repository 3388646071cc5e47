"""The models of the measurements as PyTorch's users write them, with the samples and the optimizer of a step."""
import dataclasses
import functools
import typing

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

CONTEXT, WIDTH, HEADS, LAYERS, BYTES = 256, 256, 4, 4, 256  # the defaults of --model gpt


class MnistCnn(nn.Module):
    """github.com/pytorch/examples, mnist/main.py"""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, 1), nn.Conv2d(32, 64, 3, 1)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = self.dropout1(F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2))
        return self.fc2(self.dropout2(F.relu(self.fc1(torch.flatten(x, 1)))))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        samples, tokens, width = x.shape
        heads = self.c_attn(self.ln_1(x)).view(samples, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.c_proj(attended.transpose(1, 2).reshape(samples, tokens, width))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, width=WIDTH, heads=HEADS, layers=LAYERS):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(BYTES, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(GptBlock(width, heads) for _ in range(layers)))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, BYTES, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        return self.lm_head(self.ln_f(self.blocks(x))).flatten(0, 1)


def images(channels):
    return lambda count, side: (torch.randn(count, channels, side, side), torch.randint(10, (count,)))


def contexts(count, _side):
    tokens = torch.randint(BYTES, (count, CONTEXT + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()


class Samples(torch.utils.data.Dataset):
    """Many samples that are copies of a few, ready in memory, in no time. A sample: what the model takes, and its labels."""

    COUNT, DIFFERENT = 1 << 14, 16  # more than any measurement uses, so that no epoch ends in one

    def __init__(self, model, side):
        torch.manual_seed(1)
        inputs, targets = MODELS[model].batch(self.DIFFERENT, side)
        self.inputs, self.targets = inputs, targets.view(self.DIFFERENT, -1)

    def __len__(self):
        return self.COUNT

    def __getitem__(self, index):
        index %= self.DIFFERENT
        return self.inputs[index], self.targets[index]


def loss(model, batch):
    """Of a batch of such samples."""
    return F.cross_entropy(model(batch[0]), batch[1].flatten())


@dataclasses.dataclass(frozen=True)
class Optimizer:
    name: str  # in torch.optim, and in rekindle
    options: dict
    states: int  # its tensors for each parameter

    def __call__(self, parameters, **more):
        """PyTorch's."""
        return getattr(torch.optim, self.name)(parameters, **self.options, **more)


SGD = Optimizer("SGD", {"lr": 0.001, "momentum": 0.9, "weight_decay": 5e-4}, 1)
ADAMW = Optimizer("AdamW", {"lr": 0.001, "weight_decay": 0.01}, 2)


@dataclasses.dataclass
class Row:
    make: typing.Callable
    batch: typing.Callable  # (samples, pixels) -> inputs, targets
    optimizer: Optimizer = SGD


MODELS = {
    "vgg11": Row(lambda: torchvision.models.vgg11(num_classes=10, dropout=0.5), images(3)),
    "resnet18": Row(lambda: torchvision.models.resnet18(num_classes=10), images(3)),
    "mnist-cnn": Row(MnistCnn, images(1)),
    "gpt": Row(Gpt, contexts, ADAMW),
    "gpt-128": Row(functools.partial(Gpt, width=128), contexts, ADAMW),
    "tiny": Row(functools.partial(Gpt, width=8, heads=1, layers=1), contexts, ADAMW),
}
