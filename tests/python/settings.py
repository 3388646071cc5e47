"""What makes the bits of a trainer (rekindle._settings), without a run."""

import pathlib
import platform
import tempfile
import unittest
from unittest import mock

import numpy
import torch

from rekindle import _settings


class Fingerprint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.script = pathlib.Path(folder.name) / "train.py"
        self.script.write_text("import torch\n")

    def fingerprint(self, *arguments):
        job = {
            "threads": 3, "script": str(self.script), "script_folder": str(self.script.parent),
            "script_arguments": list(arguments),
        }  # fmt: skip
        return _settings.fingerprint(job, {"device": "cpu"})

    def test_has_the_versions_of_python_torch_and_numpy(self):
        entries = self.fingerprint()
        self.assertEqual(entries["python"], platform.python_version())
        self.assertEqual(entries["torch"], torch.__version__)
        self.assertEqual(entries["numpy"], numpy.__version__)
        self.assertEqual((entries["threads"], entries["device"]), ("3", "cpu"))

    def test_differs_with_the_script_its_arguments_and_the_instructions(self):
        first = self.fingerprint()
        self.assertEqual(self.fingerprint(), first)
        self.assertNotEqual(self.fingerprint("--width", "3"), first)
        with mock.patch.dict("os.environ", {"ONEDNN_MAX_CPU_ISA": "AVX2"}):
            self.assertEqual(self.fingerprint()["ONEDNN_MAX_CPU_ISA"], "AVX2")
        self.script.write_text("import torch  # edited\n")
        self.assertNotEqual(self.fingerprint()["script"], first["script"])


if __name__ == "__main__":
    unittest.main()
