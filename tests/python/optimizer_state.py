"""The state of an optimizer, back in another one (rekindle._optimizer_state)."""

import json
import pathlib
import tempfile
import unittest
from unittest import mock

import torch
from torch import nn

from rekindle import _results
from rekindle._errors import RekindleError
from rekindle._names import parameters_of
from rekindle._optimizer import OwnOptimizer, Template
from rekindle._optimizer_state import load_state

torch.manual_seed(1)


def saved(make, model, steps=3, without=()):
    """The tensors of a checkpoint after some steps; parameters in `without` never have a gradient."""
    template = Template(make, model)
    memory = [torch.zeros(tensor.shape, dtype=tensor.dtype) for _, tensor in template.tensors]
    own = OwnOptimizer(make, model, template, memory)
    for _ in range(steps):
        own.step(1.0, [None if name in without else torch.randn(each.shape) for name, each in own.parameters.items()])
    own.save()
    state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    return state | dict(zip((name for name, _ in template.tensors), memory))


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.1)


class Late(torch.optim.SGD):
    """Has a key that begins with the first small gradient."""

    @torch.no_grad()
    def step(self, closure=None):
        super().step()
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            state["count"] = state.get("count", 0) + 1
            if parameter.grad.max() != 0 and (parameter.grad.max() < 0.01 or "late" in state):
                state["late"] = parameter.grad.clone()
            state["last"] = parameter.grad.sum().double()


class Named(nn.Module):
    """With tensors whose names look like those of an optimizer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.momentum, self.group0 = nn.Module(), nn.Module()
        self.momentum.register_buffer("weight", torch.ones(3))
        self.group0.register_buffer("weight_decay", torch.tensor(7.0))


class OptimizerState(unittest.TestCase):
    def load(self, tensors, model, optimizer):
        load_state(optimizer, model, tensors, averaged=False)
        return {name: optimizer.state.get(each, {}) for name, each in parameters_of(model).items()}

    def test_fused_steps_of_a_model_in_channels_last(self):
        tensors = saved(adam, nn.Conv2d(3, 4, 3))
        after = []
        for fused in (False, True):
            model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
            model.load_state_dict({name: tensors[name] for name in model.state_dict()})
            optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=fused)
            self.load(tensors, model, optimizer)
            for parameter in model.parameters():
                gradient = torch.linspace(-1, 1, parameter.numel()).view(parameter.shape)
                parameter.grad = torch.empty_like(parameter).copy_(gradient)
            optimizer.step()
            after.append(model.weight.detach())
        self.assertTrue(torch.allclose(*after, atol=1e-6))

    def test_the_count_of_steps_is_where_the_optimizer_wants_it(self):
        tensors = saved(adam, nn.Linear(4, 3))
        for options, device in (({}, "cpu"), ({"capturable": True}, "meta")):
            model = nn.Linear(4, 3, device="meta")  # stands for a GPU
            state = self.load(tensors, model, torch.optim.Adam(model.parameters(), **options))
            self.assertEqual(state["weight"]["step"].device.type, device)
            self.assertEqual(state["weight"]["exp_avg"].device.type, "meta")

    def test_buffers_are_not_taken_for_the_state(self):
        tensors = saved(adam, Named())
        model = Named()
        optimizer = adam(model.parameters())
        self.assertEqual(sorted(self.load(tensors, model, optimizer)["weight"]), ["exp_avg", "exp_avg_sq", "step"])
        self.assertEqual(optimizer.param_groups[0]["weight_decay"], 0)

    def test_a_key_that_had_not_begun_is_not_there(self):
        make = lambda parameters: Late(parameters, lr=0.1)  # noqa: E731
        tensors = saved(make, nn.Linear(4, 3))
        model = nn.Linear(4, 3)
        state = self.load(tensors, model, make(model.parameters()))
        self.assertEqual(sorted(state["weight"]), ["count", "last"])
        self.assertEqual(state["bias"]["count"], 3)

    def test_the_order_of_the_manifest_says_which_key_had_not_begun(self):
        make = lambda parameters: Late(parameters, lr=0.1)  # noqa: E731
        tensors = saved(make, nn.Linear(4, 3))
        in_file = dict(sorted(tensors.items(), key=lambda each: each[1].dtype.itemsize))
        with tempfile.TemporaryDirectory() as folder:
            manifest = {"identity": {}, "tensors": [{"name": name} for name in tensors]}
            (pathlib.Path(folder) / "manifest.json").write_text(json.dumps(manifest))
            model = nn.Linear(4, 3)
            weights = {name: tensors[name] for name in model.state_dict()}
            optimizer = make(model.parameters())
            with (
                mock.patch.object(_results, "_export", lambda *_: (in_file, pathlib.Path(folder))),
                mock.patch.object(_results, "_read", lambda *_: weights),
            ):
                _results.load("run", model, optimizer)
        self.assertEqual(sorted(optimizer.state[model.weight]), ["count", "last"])

    def test_an_optimizer_that_lacks_a_parameter_is_refused(self):
        tensors, model = saved(adam, nn.Linear(4, 3), without=["bias"]), nn.Linear(4, 3)
        for optimizer in (adam([model.bias]), adam(nn.Linear(4, 3).parameters())):
            before = optimizer.state[optimizer.param_groups[0]["params"][0]] = {"step": 1}
            with self.assertRaisesRegex(RekindleError, "the optimizer does not update weight: give one for all"):
                self.load(tensors, model, optimizer)
            self.assertIn(before, optimizer.state.values())
        self.assertEqual(sorted(self.load(tensors, model, adam([model.weight]))), ["bias", "weight"])

    def test_an_optimizer_with_another_state_is_refused(self):
        tensors, model = saved(adam, nn.Linear(4, 3)), nn.Linear(4, 3)
        for make, of_other in (
            (torch.optim.RMSprop, "square_avg, step"),
            (torch.optim.SGD, "no state"),
            (lambda parameters: torch.optim.Adam(parameters, amsgrad=True), "exp_avg, exp_avg_sq, max_exp_avg_sq, step"),
        ):
            text = f"the run's: that has exp_avg, exp_avg_sq, step for weight, this one {of_other}: make it as"
            with self.assertRaisesRegex(RekindleError, text):
                self.load(tensors, model, make(model.parameters()))

    def test_each_optimizer_of_torch_takes_its_own_state(self):
        optim = torch.optim
        for make in (
            optim.Adadelta, optim.Adafactor, optim.Adagrad, optim.Adam, optim.AdamW, optim.Adamax, optim.ASGD, optim.NAdam,
            optim.RAdam, optim.RMSprop, optim.Rprop, optim.SGD,
            lambda parameters: optim.SGD(parameters, momentum=0.9),
            lambda parameters: optim.RMSprop(parameters, momentum=0.9, centered=True),
            lambda parameters: optim.Adam(parameters, amsgrad=True, fused=True),
            lambda parameters: optim.AdamW(parameters, lr=torch.tensor(0.1), foreach=False),
        ):  # fmt: skip
            tensors, model = saved(make, nn.Linear(4, 3)), nn.Linear(4, 3)
            with self.subTest(make=make):
                optimizer = make(model.parameters())
                optimizer.step()
                self.load(tensors, model, optimizer)
                model(torch.ones(1, 4)).sum().backward()
                optimizer.step()


if __name__ == "__main__":
    unittest.main()
