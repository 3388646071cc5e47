#!/usr/bin/env python3
"""Walks of PyTorch in float64 and float32, the golden files of tests/model/golden_test.cpp (tests/model/golden/README.md).

Needs torch 2.11, torchvision 0.26 and numpy.

walks.py write FOLDER [NAME...]   makes the files anew: all, or these walks or models
walks.py check FOLDER [NAME...]   makes them anew and compares; another PyTorch or processor rounds otherwise, so float64
                                  has to agree to 1e-6 of the way, and float32's distances have to be of the same size.
                                  A stored walk that is BAD would not show much
"""
import fnmatch
import json
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F
from hashed import IMAGES, LABELS, TOKENS, chunks, initial, integers, rules, sketch, sketch_size, uniform
from networks import make
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

IMAGE = {"classes": 10, "channels": 3, "image_size": 64}
MNIST = {"classes": 10, "channels": 1, "image_size": 28}
TEXT = {"layers": 2, "heads": 2, "width": 32, "context": 64, "vocabulary": 64}
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
              "adadelta": torch.optim.Adadelta, "rmsprop": torch.optim.RMSprop}


def walk(model, options, optimizer, lr, label_smoothing=0.0, steps=8, samples=4, **hyperparameters):
    """The recipe of a walk. Hyperparameters are named as in torch.optim. None has its default value, so that a program that
    ignores one is found."""
    return {"model": model, "options": options, "optimizer": optimizer, "lr": lr, "label_smoothing": label_smoothing,
            "hyperparameters": hyperparameters, "steps": steps, "batches": 2, "micro_batches": 2, "samples": samples}


ADAM = {"betas": [0.8, 0.95], "eps": 1e-4, "weight_decay": 0.1}
WALKS = {
    "resnet18-sgd": walk("resnet18", IMAGE, "sgd", 1e-3, weight_decay=0.1),
    "resnet18-momentum": walk("resnet18", IMAGE, "sgd", 5e-4, momentum=0.8, dampening=0.3, weight_decay=0.1),
    "resnet18-nesterov": walk("resnet18", IMAGE, "sgd", 2e-4, momentum=0.8, nesterov=True, weight_decay=0.1),
    "resnet18-smoothing": walk("resnet18", IMAGE, "sgd", 1e-3, label_smoothing=0.2),
    "resnet18-adam": walk("resnet18", IMAGE, "adam", 1e-4, **{**ADAM, "eps": 1e-2}),
    "resnet18-adamw": walk("resnet18", IMAGE, "adamw", 1e-4, **{**ADAM, "eps": 1e-2}),
    "resnet18-adadelta": walk("resnet18", IMAGE, "adadelta", 0.003, rho=0.7, eps=1e-3, weight_decay=0.1),
    "resnet18-rmsprop": walk("resnet18", IMAGE, "rmsprop", 5e-5, alpha=0.8, eps=1e-2, weight_decay=0.1),
    "resnet18-rmsprop-momentum": walk("resnet18", IMAGE, "rmsprop", 3e-5, alpha=0.8, eps=1e-2, momentum=0.5),
    "mnist-cnn-sgd": walk("mnist-cnn", MNIST, "sgd", 1e-3, momentum=0.8),
    "mnist-cnn-adamw": walk("mnist-cnn", MNIST, "adamw", 1e-4, **ADAM),
    "mnist-cnn-adadelta": walk("mnist-cnn", MNIST, "adadelta", 0.05),
    "gpt-sgd": walk("gpt", TEXT, "sgd", 0.05, weight_decay=0.01),
    "gpt-momentum": walk("gpt", TEXT, "sgd", 0.02, momentum=0.8, dampening=0.3, weight_decay=0.01),
    "gpt-nesterov": walk("gpt", TEXT, "sgd", 0.01, momentum=0.8, nesterov=True, weight_decay=0.01),
    "gpt-smoothing": walk("gpt", TEXT, "sgd", 0.05, label_smoothing=0.2),
    "gpt-adam": walk("gpt", TEXT, "adam", 2e-3, **{**ADAM, "eps": 1e-3}),
    "gpt-adamw": walk("gpt", TEXT, "adamw", 2e-3, **{**ADAM, "eps": 1e-3}),
    "gpt-adadelta": walk("gpt", TEXT, "adadelta", 0.1, rho=0.7, eps=1e-4, weight_decay=0.01),
    "gpt-rmsprop": walk("gpt", TEXT, "rmsprop", 5e-4, alpha=0.8, eps=1e-3, weight_decay=0.01),
    "gpt-rmsprop-momentum": walk("gpt", TEXT, "rmsprop", 5e-4, alpha=0.8, eps=1e-3, momentum=0.5),
    "vgg11-sgd": walk("vgg11", IMAGE, "sgd", 2e-4, momentum=0.8, steps=6, samples=2),
    "vgg11-adamw": walk("vgg11", IMAGE, "adamw", 1e-5, steps=6, samples=2, **ADAM),
    "vgg11_bn-sgd": walk("vgg11_bn", IMAGE, "sgd", 4e-5, momentum=0.8, steps=6, samples=2),
    "vgg11_bn-adamw": walk("vgg11_bn", IMAGE, "adamw", 1e-5, steps=6, samples=2, **ADAM),
}


def samples_of(recipe, part, dtype):
    """Inputs and labels of a micro-batch, numbered through all batches."""
    count, options = recipe["samples"], recipe["options"]
    if recipe["model"] == "gpt":
        shape = (count, options["context"])
        return [torch.from_numpy(integers(purpose, part, shape[0] * shape[1], options["vocabulary"])).view(shape)
                for purpose in (TOKENS, LABELS)]
    shape = (count, options["channels"], options["image_size"], options["image_size"])
    images = torch.from_numpy(uniform(IMAGES, part, 0, int(numpy.prod(shape)), 2.0)).view(shape)
    return images.to(dtype), torch.from_numpy(integers(LABELS, part, count, options["classes"]))


def step(model, optimizer, batch, label_smoothing, clip_norm=None):
    """One step as Rekindle makes it: every micro-batch begins with the buffers of the step; the gradient and the new
    buffers are means over the micro-batches. Returns the mean loss."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    sums = {name: torch.zeros_like(buffer) for name, buffer in model.named_buffers()}
    optimizer.zero_grad()
    total = 0.0
    for inputs, labels in batch:
        for name, buffer in model.named_buffers():
            buffer.copy_(before[name])
        logits = model(inputs).flatten(0, -2)
        loss = F.cross_entropy(logits, labels.flatten(), label_smoothing=label_smoothing)
        (loss / len(batch)).backward()
        total += loss.item() / len(batch)
        for name, buffer in model.named_buffers():
            sums[name] += buffer
    for name, buffer in model.named_buffers():
        buffer.copy_(sums[name] / len(batch))
    if clip_norm:
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return total


def begin(model):
    """Initial values of the parameters; those of the buffers are PyTorch's: means 0 and variances 1."""
    parameters = dict(model.named_parameters())
    drawn = rules([(name, parameter.shape) for name, parameter in parameters.items()])
    with torch.no_grad():
        for index, (rule, parameter) in enumerate(zip(drawn, parameters.values())):
            flat = parameter.view(-1)
            for first, count in chunks(flat.numel()):
                flat[first : first + count] = torch.from_numpy(initial(index, rule, parameter.shape, first, count))


def taking_turns(recipe, number, dtype):
    first = number % recipe["batches"] * recipe["micro_batches"]
    return [samples_of(recipe, first + i, dtype) for i in range(recipe["micro_batches"])]


def constant_rate(recipe, number):
    return recipe["lr"]


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def optimizer_of(recipe, model):
    """Each parameter is a group: `no_decay` and `lr_scale` of the recipe name some."""
    values, groups = recipe["hyperparameters"], []
    for name, parameter in model.named_parameters():
        group = {"params": [parameter], "scale": 1.0}
        if matches(name, recipe.get("no_decay", ())):
            group["weight_decay"] = 0.0
        for pattern, scale in recipe.get("lr_scale", {}).items():
            group["scale"] *= scale if matches(name, [pattern]) else 1.0
        groups.append(group)
    return OPTIMIZERS[recipe["optimizer"]](groups, lr=recipe["lr"], **values)


def run(recipe, batch_of, rate_of, dtype, memory_format=torch.contiguous_format):
    """The losses and the last state, {name: flat tensor}; with `ema`, the average of what is a float."""
    model = make(recipe["model"], recipe["options"])
    begin(model)
    model = model.to(dtype)
    if recipe["model"] != "gpt":
        model = model.to(memory_format=memory_format)
    optimizer = optimizer_of(recipe, model)
    model.train()
    losses = []
    averaged = None
    if "ema" in recipe:
        averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(recipe["ema"]), use_buffers=True)
    for number in range(recipe["steps"]):
        for group in optimizer.param_groups:
            group["lr"] = rate_of(recipe, number) * group["scale"]
        batch = batch_of(recipe, number, dtype)
        losses.append(step(model, optimizer, batch, recipe["label_smoothing"], recipe.get("clip_norm")))
        if averaged:
            averaged.update_parameters(model)
    state = model.state_dict()
    if averaged:
        state |= {name: tensor for name, tensor in averaged.module.state_dict().items() if tensor.is_floating_point()}
    return losses, {name: tensor.detach().reshape(-1) for name, tensor in state.items()}


def compare(recipe, exact, others):
    """For each tensor [name, way in float64, distance of each of the others, sketch of the way]."""
    model = make(recipe["model"], recipe["options"])
    parameters = [(name, parameter.shape) for name, parameter in model.named_parameters()]
    drawn = rules(parameters)
    tensors = parameters + [(name, buffer.shape) for name, buffer in model.named_buffers()]
    rows = []
    for index, (name, shape) in enumerate(tensors):
        squares, out = numpy.zeros(1 + len(others)), numpy.zeros(sketch_size(exact[name].numel()))
        for first, count in chunks(exact[name].numel()):
            end = exact[name][first : first + count].double().numpy()
            way = end - (initial(index, drawn[index], shape, first, count).astype(numpy.float64) if index < len(drawn)
                         else 1.0 if name.endswith("running_var") else 0.0)
            sketch(index, first, way, out)
            away = [other[name][first : first + count].double().numpy() - end for other in others]
            squares += [float(each @ each) for each in [way, *away]]
        rows.append([name, *numpy.sqrt(squares).tolist(), out.tolist()])
    return rows


def norm(rows, column):
    return sum(row[column] ** 2 for row in rows) ** 0.5


def make_walk(recipe, batch_of=taking_turns, rate_of=constant_rate):
    exact_losses, exact = run(recipe, batch_of, rate_of, torch.float64)
    losses, single = run(recipe, batch_of, rate_of, torch.float32)
    last_losses, channels_last = run(recipe, batch_of, rate_of, torch.float32, torch.channels_last)
    return {"recipe": recipe, "float64_losses": exact_losses, "float32_losses": losses,
            "channels_last_losses": last_losses, "tensors": compare(recipe, exact, [single, channels_last])}


def describe(name, golden):
    """Refuses a walk that would not show much, or in which float32's distance is a matter of chance (README.md there)."""
    exact, batches = golden["float64_losses"], golden["recipe"]["batches"]
    fall = 1 - sum(exact[-batches:]) / sum(exact[:batches])
    parameters = [row for row in golden["tensors"] if row[0].endswith(("weight", "bias"))]
    buffers = [row for row in golden["tensors"] if row[0].endswith(("running_mean", "running_var"))]
    text = f"{name}: loss {exact[0]:.3f}, {exact[1]:.3f} -> {exact[-2]:.3f}, {exact[-1]:.3f}, falls {100 * fall:.0f} %"
    bad = fall < 0.1
    for what, rows in (("parameters", parameters), ("buffers", buffers)):
        if rows:
            shares = [norm(rows, column) / norm(rows, 1) for column in (2, 3)]
            text += f"; {what}: way {norm(rows, 1):.3g}, float32 {100 * shares[0]:.3g} %, channels_last {100 * shares[1]:.3g} %"
            bad = bad or max(shares) > 0.02 or not 0.5 < shares[0] / shares[1] < 2
    print(("BAD " if bad else "ok ") + text, flush=True)
    return not bad


def text_of(golden):
    lines = []
    for key, value in golden.items():
        if key == "tensors":
            short = [[row[0], *(float(f"{x:.4g}") for x in row[1:-1]), [float(f"{x:.9g}") for x in row[-1]]] for row in value]
            lines.append(' "tensors": [\n' + ",\n".join("  " + json.dumps(row) for row in short) + "\n ]")
        else:
            lines.append(f' "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def agrees(name, golden, stored):
    """Whether walks of two machines are the same but for rounding."""
    assert golden["recipe"] == stored["recipe"], f"{name}: another recipe"
    way = norm(stored["tensors"], 1)
    square = 0.0
    for new, old in zip(golden["tensors"], stored["tensors"], strict=True):
        assert new[0] == old[0], f"{name}: {new[0]} instead of {old[0]}"
        square += float(numpy.sum((numpy.array(new[-1]) - old[-1]) ** 2))
    away = square**0.5 / way
    loss = max(abs(a / b - 1) for a, b in zip(golden["float64_losses"], stored["float64_losses"], strict=True))
    sizes = [norm(golden["tensors"], column) / norm(stored["tensors"], column) for column in (2, 3)]
    print(f"  float64 {away:.2g} of the way from the stored walk, losses {loss:.2g}; float32's distances are "
          f"{sizes[0]:.2f} and {sizes[1]:.2f} of the stored ones")
    return away < 1e-6 and loss < 1e-6 and all(0.1 < size < 10 for size in sizes)


def main(what, folder, names):
    torch.set_num_threads(1)
    good = True
    chosen = [name for name, recipe in WALKS.items() if not names or name in names or recipe["model"] in names]
    assert chosen, f"no walk is named {names}"
    for name in chosen:
        golden = make_walk(WALKS[name])
        path = folder / f"{name}.json"
        if what == "write":
            good = describe(name, golden) and good
            path.write_text(text_of(golden))
        else:
            stored = json.loads(path.read_text())
            good = describe(name, stored) and good
            good = agrees(name, golden, stored) and good
    return good


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    sys.exit(0 if main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]) else 1)
