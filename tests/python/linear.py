"""Linear layers whose weight's gradient is computed in its place (rekindle._linear) against torch's own: the same bits."""

import itertools
import unittest
from unittest import mock

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from rekindle import _linear


def once(layer, x):
    return layer(x).pow(2).sum()


def with_activation_in_place(layer, x):
    return torch.relu_(layer(x)).pow(2).sum()


def expanded(layer, x):
    return layer(x).sum()  # the gradient that goes back repeats one number


def twice(layer, x):
    return (layer(x) + 2 * layer(2 * x)).pow(2).sum()


def checkpointed(layer, x):
    return checkpoint(layer, x, use_reentrant=False).pow(2).sum()


def checkpointed_by_a_pass_of_its_own(layer, x):
    return checkpoint(layer, x, use_reentrant=True).pow(2).sum()


def gradient_penalty(layer, x):
    loss = layer(x).pow(2).sum()
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    return loss + slope.pow(2).sum()


def under_autocast(layer, x):
    with torch.autocast("cpu", torch.bfloat16):
        return layer(x).float().pow(2).sum()


def mapped(layer, x):
    return torch.func.vmap(layer)(x.unsqueeze(0)).pow(2).sum()


def with_a_subclass(layer, x):
    return layer(nn.Parameter(x)).pow(2).sum()


class Linear(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)

    def compare(self, loss, shape=(4, 512), outputs=128, bias=True, steps_into_place=True):
        torch.manual_seed(1)
        layer, first = nn.Linear(shape[-1], outputs, bias=bias), torch.randn(shape)
        place, taken = torch.full_like(layer.weight, 7.0), []

        def take():
            if taken or not self.in_backward:
                return None
            taken.append(True)
            return place

        results = []
        for weights in ({}, {id(layer.weight): take}):
            self.in_backward = False
            x = first.clone().requires_grad_()
            layer.zero_grad(set_to_none=True)
            with _linear.InPlaces(weights).on():
                value = loss(layer, x)
                self.in_backward = True
                value.backward()
            results.append([value.detach(), *(each.grad for each in (x, *layer.parameters()) if each.grad is not None)])
        for one, other in zip(*results):
            self.assertTrue(torch.equal(one, other))
        self.assertEqual(len(results[0]), len(results[1]))
        self.assertEqual(bool(taken), steps_into_place)
        return taken and layer.weight.grad.data_ptr() == place.data_ptr()

    def test_every_shape(self):
        for shape, outputs, bias in itertools.product(((4, 512), (64, 100), (2, 3, 33), (2, 3, 5, 20)), (128, 33), (True, False)):
            with self.subTest(shape=shape, outputs=outputs, bias=bias):
                self.assertTrue(self.compare(once, shape, outputs, bias))

    def test_a_frozen_layer_keeps_nothing_that_the_script_may_change(self):
        layer = nn.Linear(8, 8).requires_grad_(False)
        gradients = []
        for weights in ({}, {id(layer.weight): lambda: None}):
            x = torch.ones(2, 8, requires_grad=True)
            with _linear.InPlaces(weights).on():
                h = 1 * x
                y = layer(h)
                h += 1
                (y * y).sum().backward()
            gradients.append(x.grad)
        self.assertTrue(torch.equal(*gradients))

    def test_a_layer_that_was_replaced_is_called(self):
        layer, x = nn.Linear(8, 8), torch.ones(2, 8)
        weights = {id(layer.weight): lambda: None}
        for holder, name in ((nn.Linear, "forward"), (nn.functional, "linear")):
            with mock.patch.object(holder, name, lambda *_: torch.zeros(())), _linear.InPlaces(weights).on():
                self.assertEqual(layer(x), 0)
        in_places = _linear.InPlaces(weights)
        with in_places.on():
            nn.Linear.forward, before = (lambda *_: torch.zeros(())), in_places._torchs
        try:
            self.assertEqual(layer(x), 0)
            with in_places.on():
                self.assertEqual(layer(x), 0)
        finally:
            nn.Linear.forward = before

    def test_a_single_row_or_column_is_torchs(self):
        self.compare(once, (1, 512), steps_into_place=False)
        self.compare(once, (8, 1), steps_into_place=False)

    def test_ways_to_use_a_layer(self):
        for loss in (with_activation_in_place, expanded, checkpointed, checkpointed_by_a_pass_of_its_own):
            for shape in ((4, 512), (2, 3, 512)):
                with self.subTest(loss=loss.__name__, shape=shape):
                    self.assertTrue(self.compare(loss, shape))
        for loss in (twice, gradient_penalty):  # autograd adds two gradients
            with self.subTest(loss=loss.__name__):
                self.assertFalse(self.compare(loss))

    def test_what_else_takes_part_gets_torchs_layer(self):
        for loss in (under_autocast, mapped, with_a_subclass):
            with self.subTest(loss=loss.__name__):
                self.compare(loss, steps_into_place=False)
        with torch.device("cpu"):
            self.compare(once, steps_into_place=False)

    def test_a_parametrization_is_asked_as_often_as_by_torchs_layer(self):
        counts = []
        for weights in ({}, {0: lambda: None}):
            layer = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
            asked = []
            layer.parametrizations.weight[0].register_forward_hook(lambda *_, asked=asked: asked.append(True))
            with _linear.InPlaces(weights).on():
                layer(torch.ones(2, 8))
            counts.append(len(asked))
        self.assertEqual(counts, [1, 1])

    def test_a_compiled_model_is_compiled_once(self):
        layer, compilations = nn.Linear(8, 8), []

        def compiler(graph, _inputs):
            compilations.append(graph)
            return graph.forward

        model = torch.compile(nn.Sequential(layer, nn.ReLU()), backend=compiler)
        in_places = _linear.InPlaces({id(layer.weight): lambda: None})
        for _ in range(3):
            with in_places.on():
                model(torch.ones(2, 8)).sum().backward()
        self.assertEqual(len(compilations), 1)

    def test_afterwards_the_layer_is_torchs(self):
        before = nn.Linear.forward
        with self.assertRaises(ZeroDivisionError), _linear.InPlaces({1: lambda: None}).on():
            self.assertIsNot(nn.Linear.forward, before)
            raise ZeroDivisionError
        self.assertIs(nn.Linear.forward, before)


if __name__ == "__main__":
    unittest.main()
