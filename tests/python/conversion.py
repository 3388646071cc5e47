"""The documented command that makes a .safetensors file of a PyTorch file (docs/running.md)."""

import importlib.util
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

import torch
from torch import nn

PAGE = pathlib.Path(__file__).parents[2] / "docs/running.md"


@unittest.skipUnless(importlib.util.find_spec("safetensors"), "needs safetensors")
class Conversion(unittest.TestCase):
    def test_tied_weights_and_channels_last(self):
        from safetensors.torch import load_file

        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(4, 4), nn.Linear(4, 4)).to(memory_format=torch.channels_last)
        model[2].weight = model[1].weight
        (command,) = re.findall(r"^ +python3 (-c .*) vgg11.pth vgg11.safetensors$", PAGE.read_text(), re.M)
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/model.pth", f"{folder}/model.safetensors"]
            torch.save(model.state_dict(), files[0])
            subprocess.run([sys.executable, *shlex.split(command), *files], check=True)
            made = load_file(files[1])
        state = model.state_dict()
        self.assertEqual(sorted(made), sorted(state))
        self.assertTrue(all(torch.equal(made[name], state[name]) for name in state))


if __name__ == "__main__":
    unittest.main()
