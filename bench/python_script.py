"""The trainings that bench/python_loop.py compares. `rekindle local bench/python_script.py MODEL`."""

import sys

import torch
from torch import nn
from torch.nn import functional

import rekindle


class Images(torch.utils.data.Dataset):
    def __init__(self, side):
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randn(64, 3, side, side, generator=generator)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], index % 10


class Tokens(torch.utils.data.Dataset):
    def __init__(self):
        self.tokens = torch.randint(256, (64, 257), generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.tokens[index, :-1], self.tokens[index, 1:]


class Gpt(nn.Module):
    def __init__(self, width=256, heads=4, layers=4, context=256):
        super().__init__()
        self.token, self.position = nn.Embedding(256, width), nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, 256, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context), persistent=False)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        return self.head(self.layers(x, mask=self.mask, is_causal=True)).flatten(0, 1)


def model_of(name):
    if name == "gpt":
        return Gpt()
    import torchvision

    return getattr(torchvision.models, name)(num_classes=10)


# Data, samples a micro-batch, micro-batches a step.
SETTINGS = {
    "vgg11": (lambda: Images(224), 4, 2),
    "resnet18": (lambda: Images(224), 8, 2),
    "gpt": (Tokens, 8, 2),
}


def loss(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1].flatten())


if __name__ == "__main__":
    name, steps, optimizer = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    data, samples, parts = SETTINGS[name]
    own = lambda parameters: torch.optim.SGD(parameters, lr=0.001, momentum=0.9)  # noqa: E731
    rekindle.run(
        model=lambda: model_of(name), loss=loss, train_data=data, batch_size=samples * parts, micro_batches=parts,
        steps=steps, optimizer=own if optimizer == "torch" else rekindle.SGD(lr=0.001, momentum=0.9),
        checkpoint_interval="0s", loader_threads=0, hash_every=0,
    )  # fmt: skip
