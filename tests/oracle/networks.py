"""The models that torchvision does not have, and all models by their names here. Needs torch and torchvision."""
import torch
import torch.nn.functional as F
import torchvision
from torch import nn


class MnistCnn(nn.Module):
    """github.com/pytorch/examples, mnist/main.py, whose dropouts are 0.25 and 0.5."""

    def __init__(self, classes=10, channels=1, dropouts=(0.0, 0.0)):
        super().__init__()
        self.dropouts = dropouts
        self.conv1 = nn.Conv2d(channels, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = F.relu(self.fc1(torch.flatten(F.dropout(x, self.dropouts[0], self.training), 1)))
        return self.fc2(F.dropout(x, self.dropouts[1], self.training))


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


def make(name, options):
    """`options` are named as in model/models.hpp. The initial values come from torch's default generator."""
    if name == "gpt":
        return Gpt(**options)
    if name == "mnist-cnn":
        return MnistCnn(options["classes"], options["channels"])
    more = {"dropout": 0.0} if name.startswith("vgg") else {}
    return torchvision.models.get_model(name, num_classes=options["classes"], **more)


VISION = [f"vgg{depth}{kind}" for depth in (11, 13, 16, 19) for kind in ("", "_bn")]
VISION += [f"resnet{depth}" for depth in (18, 34, 50, 101)]


def torchvision_of(tensors):
    """The name of torchvision's model that these tensors are for, and the model with them, loaded with strict=True. Tensors that
    no model has, those of an optimizer, are left out: with them strict=True would refuse."""
    shapes = {key: value.shape for key, value in tensors.items()}
    classes = shapes["fc.bias" if "fc.bias" in shapes else "classifier.6.bias"][0]
    best, keys = None, []
    for name in VISION:
        with torch.device("meta"):
            wanted = {key: value.shape for key, value in torchvision.models.get_model(name, num_classes=classes).state_dict().items()}
        if len(wanted) > len(keys) and all(shapes.get(key) == shape for key, shape in wanted.items()):
            best, keys = name, list(wanted)
    assert best, "no model of torchvision has these names and shapes"
    model = torchvision.models.get_model(best, num_classes=classes)
    model.load_state_dict({key: tensors[key] for key in keys}, strict=True)
    for key, value in model.state_dict().items():
        assert value.dtype == tensors[key].dtype and torch.equal(value, tensors[key]), key
    with torch.no_grad():
        out = model.eval()(torch.zeros(1, 3, 64, 64))
    assert out.shape == (1, classes) and torch.isfinite(out).all()
    return best, model
