#!/usr/bin/env python3
"""What torchvision and PyTorch say of every model, written as golden file for tests/model/models_test.cpp: names and shapes of
all tensors and, for some models, numbers of one training step from torch.manual_seed(1).

Needs torch 2.11, torchvision 0.26 and numpy. Usage: state_dicts.py OUTPUT.json
Images, labels and tokens come from the hash of pytorch_golden.py. Each tensor is one line of the file:
[name, shape] or [name, shape, norm of the initial values, norm of the gradient].
"""
import json
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F
import torchvision
from pytorch_golden import IMAGES, LABELS, MnistCnn, stream, uniform
from torch import nn

SEED = 1
VISION = [f"vgg{depth}{kind}" for depth in (11, 13, 16, 19) for kind in ("", "_bn")]
VISION += [f"resnet{depth}" for depth in (18, 34, 50, 101)]
WITH_NUMBERS = {"vgg11": 4, "vgg16_bn": 4, "resnet18": 8, "resnet50": 8, "mnist-cnn": 4, "gpt": 3}  # samples


class GptBlock(nn.Module):
    """Attention is written out, so that it is independent of the operator that the C++ model uses."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def attend(self, x):
        tokens = x.shape[1]
        future = torch.ones(tokens, tokens).triu(1).bool()
        heads = []
        for q, k, v in zip(*(part.chunk(self.heads, dim=2) for part in self.attn["c_attn"](x).chunk(3, dim=2))):
            scores = q @ k.transpose(1, 2) / q.shape[2] ** 0.5
            heads.append(scores.masked_fill(future, float("-inf")).softmax(dim=2) @ v)
        return self.attn["c_proj"](torch.cat(heads, dim=2))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, width),
            "wpe": nn.Embedding(context, width),
            "h": nn.ModuleList(GptBlock(width, heads) for _ in range(layers)),
            "ln_f": nn.LayerNorm(width),
        })
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, 0, 0.02 / ((2 * layers) ** 0.5 if name.endswith("c_proj.weight") else 1))

    def forward(self, tokens):
        x = self.transformer["wte"](tokens) + self.transformer["wpe"](torch.arange(tokens.shape[1]))
        for block in self.transformer["h"]:
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x))


def build(name):
    """The model and the options that it was built with, named as in model/models.hpp."""
    torch.manual_seed(SEED)
    if name == "gpt":
        options = {"layers": 2, "heads": 2, "width": 32, "context": 16, "vocabulary": 64}
        return Gpt(**options), options
    if name == "mnist-cnn":
        return MnistCnn(), {"classes": 10, "channels": 1, "image_size": 28}
    options = {"classes": 10, "channels": 3, "image_size": 64 if name.startswith("resnet") else 32}
    more = {"dropout": 0.0} if name.startswith("vgg") else {}
    return torchvision.models.get_model(name, num_classes=10, **more), options


def samples_of(name, options, count):
    """Inputs and labels."""
    if name == "gpt":
        shape = (count, options["context"] - 1)  # shorter than the context on purpose
        tokens = [torch.from_numpy((stream(LABELS, part, 0, shape[0] * shape[1]) % numpy.uint64(options["vocabulary"]))
                                   .astype(numpy.int64)).view(shape) for part in (0, 1)]
        return tokens[0], tokens[1]
    shape = (count, options["channels"], options["image_size"], options["image_size"])
    images = torch.from_numpy(uniform(IMAGES, 0, 0, int(numpy.prod(shape)), 2.0)).view(shape)
    return images, torch.from_numpy((stream(LABELS, 0, 0, count) % numpy.uint64(10)).astype(numpy.int64))


def step(model, x, y):
    """Numbers of a training step, and of an evaluation after it, which sees the running statistics. Of logits the last 40."""
    model.train()
    logits = model(x)
    loss = F.cross_entropy(logits.flatten(0, -2), y.flatten())
    loss.backward()
    model.eval()
    with torch.no_grad():
        evaluated = model(x)
    return {"loss": loss.item(), "logits": logits.flatten()[-40:].tolist(), "evaluated": evaluated.flatten()[-40:].tolist()}


def describe(name):
    model, options = build(name)
    golden = {"options": options}
    initial = {key: value.double().norm().item() for key, value in model.named_parameters()}
    if name in WITH_NUMBERS:
        golden["samples"] = WITH_NUMBERS[name]
        golden["numbers"] = step(model, *samples_of(name, options, WITH_NUMBERS[name]))
    golden["parameters"] = [
        [key, list(value.shape)] + ([initial[key], value.grad.double().norm().item()] if name in WITH_NUMBERS else [])
        for key, value in model.named_parameters()]
    golden["buffers"] = [[key, list(value.shape)] for key, value in model.named_buffers()]
    return golden


def text_of(golden):
    lines = []
    for key, value in golden.items():
        if key in ("parameters", "buffers") and value:
            lines.append(f'  "{key}": [\n' + ",\n".join("   " + json.dumps(entry) for entry in value) + "\n  ]")
        else:
            lines.append(f'  "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n }"


def main():
    torch.set_num_threads(1)
    models = []
    for name in VISION + ["mnist-cnn", "gpt"]:
        models.append(f' "{name}": ' + text_of(describe(name)))
        print(name)
    pathlib.Path(sys.argv[1]).write_text("{\n" + ",\n".join(models) + "\n}\n")


if __name__ == "__main__":
    numpy.seterr(over="ignore")
    main()
