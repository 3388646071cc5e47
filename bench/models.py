"""The models of bench/compare.py as PyTorch's users write them, with the samples and the optimizer of a step."""
import dataclasses
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
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        samples, tokens, _ = x.shape
        heads = self.c_attn(self.ln_1(x)).view(samples, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.c_proj(attended.transpose(1, 2).reshape(samples, tokens, WIDTH))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(BYTES, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(GptBlock() for _ in range(LAYERS)))
        self.ln_f, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, BYTES, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        return self.lm_head(self.ln_f(self.blocks(x))).flatten(0, 1)


def images(channels):
    return lambda count, side: (torch.randn(count, channels, side, side), torch.randint(10, (count,)))


def contexts(count, _side):
    tokens = torch.randint(BYTES, (count, CONTEXT + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()


def sgd(parameters, **more):
    return torch.optim.SGD(parameters, lr=0.001, momentum=0.9, weight_decay=5e-4, **more)


@dataclasses.dataclass
class Row:
    make: typing.Callable
    batch: typing.Callable  # (samples, pixels) -> inputs, targets
    optimizer: typing.Callable = sgd


MODELS = {
    "vgg11": Row(lambda: torchvision.models.vgg11(num_classes=10, dropout=0.5), images(3)),
    "resnet18": Row(lambda: torchvision.models.resnet18(num_classes=10), images(3)),
    "mnist-cnn": Row(MnistCnn, images(1)),
    "gpt": Row(Gpt, contexts, lambda parameters, **more: torch.optim.AdamW(parameters, **more)),
}
