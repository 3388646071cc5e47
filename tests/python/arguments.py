"""The arguments of rekindle.run() and of its optimizers, as types and help() show them."""

import dataclasses
import inspect
import os
import re
import unittest
from typing import SupportsFloat, get_args, get_type_hints

import torch
from torch import nn
from torch.utils.data import Dataset

import rekindle
from rekindle import _call
from rekindle._record import Record
from rekindle.optimizers import Optimizer


class Hints(unittest.TestCase):
    """Those that an editor or a type checker would hold against a script that the documents show."""

    def setUp(self):
        imported = {"torch": torch, "Tensor": torch.Tensor, "nn": nn, "Dataset": Dataset}  # by type checkers alone
        self.hints = get_type_hints(inspect.unwrap(_call.run), {**vars(_call), **imported})

    def test_run_dir_may_be_a_path(self):
        self.assertEqual(get_args(self.hints["run_dir"]), (str, os.PathLike[str]))

    def test_data_may_be_a_list(self):
        for name in ("train_data", "test_data"):
            self.assertIn(_call.MapStyle, get_args(self.hints[name]), name)
        for name in ("__len__", "__getitem__"):
            self.assertTrue(hasattr(_call.MapStyle, name) and hasattr(list, name))

    def test_sums_and_counts_may_be_tensors(self):
        _, pair = get_args(_call.Sums)
        self.assertEqual(get_args(pair), (SupportsFloat, SupportsFloat))
        self.assertIsInstance(torch.ones(()), SupportsFloat)


class Defaults(unittest.TestCase):
    def test_those_of_an_optimizer_are_torchs(self):
        optimizers = [each for each in vars(rekindle).values() if isinstance(each, type) and issubclass(each, Optimizer)]
        self.assertEqual(len(optimizers), 5)
        for ours in optimizers:
            torchs = inspect.signature(getattr(torch.optim, ours.__name__)).parameters
            for field in dataclasses.fields(ours):
                with self.subTest(optimizer=ours.__name__, option=field.name):
                    default = torchs[field.name].default
                    if ours is rekindle.SGD and field.name == "lr" and not isinstance(default, float):
                        continue  # before torch 2.3 it had none
                    self.assertEqual(field.default, default)


class Help(unittest.TestCase):
    def test_each_option_of_an_optimizer_and_a_schedule_has_a_line(self):
        records = [each for each in vars(rekindle).values() if isinstance(each, type) and issubclass(each, Record)]
        self.assertEqual(len(records), 11)
        for record in records:
            described = re.findall(r"^([\w, ]+): ", inspect.cleandoc(record.__doc__), re.M)
            names = [name for line in described for name in line.split(", ")]
            self.assertEqual(sorted(names), sorted(field.name for field in dataclasses.fields(record)), record.__name__)


if __name__ == "__main__":
    unittest.main()
