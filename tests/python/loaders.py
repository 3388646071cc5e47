"""Tests of rekindle._loader, without a run."""

import errno
import multiprocessing
import os
import pathlib
import re
import signal
import tempfile
import time
import unittest
from unittest import mock

import numpy
import torch

from rekindle import _loader, _process
from rekindle._data import EvaluationOrder, StepOrder
from rekindle._errors import Aborted, NotSent, SampleError, StorageAway, hint_for, one_line

MICRO_BATCH = 8


def samples(step, micro_batch):
    first = (2 * step + micro_batch) * MICRO_BATCH
    return [(0, first + i) for i in range(MICRO_BATCH)]


def key(epoch, index):
    return (epoch % 97) * 1000 + index


class Samples(torch.utils.data.Dataset):
    """Writes down which samples are computed. Sample 3 waits for a file; there is one that cannot be read."""

    def __init__(self, folder, error=None):
        self.folder, self.error = folder, error

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        with open(self.folder / "computed", "a") as file:
            file.write(f"{index}\n")
        while index == 3 and not (self.folder / "go").exists():
            time.sleep(0.01)
        if index == 5 and self.error is not None and (self.folder / "away").exists():
            raise self.error
        return torch.rand(()), index, os.getpid()


class Loaders(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def let_go(self):
        (self.folder / "go").touch()

    def loader(self, processes, error=None, **named):
        order = StepOrder(samples)
        loader = _loader.Loader(Samples(self.folder, error), order, key, None, processes, **named)
        self.addCleanup(loader.close)  # its processes write into the folder
        return order, loader

    def computed(self):
        return [int(line) for line in (self.folder / "computed").read_text().split()]

    def wait_for_sample(self, index):
        while not (self.folder / "computed").exists() or index not in self.computed():
            time.sleep(0.01)

    def test_a_batch_that_cannot_be_sent_is_an_error_and_another_one_comes(self):
        def collate(samples):
            values = torch.tensor([index for _, index, _ in samples])
            return (lambda: 0) if 8 in values else values

        self.let_go()
        order = StepOrder(samples)
        loader = _loader.Loader(Samples(self.folder), order, key, collate, 1)
        self.addCleanup(loader.close)
        for _ in range(2):
            order.expect(0, [0, 1], [0, 1])
            loader.begin()
            self.assertEqual(loader.next((0, 0)).tolist(), [index for _, index in samples(0, 0)])
            with self.assertRaises(NotSent) as raised:
                loader.next((0, 1))
            self.assertIn("a batch cannot be sent by the process that loaded it: ", one_line(raised.exception))
            self.assertIn("detach()", hint_for(raised.exception))

    def test_without_a_temporary_folder_the_hint_names_its_variable(self):
        settings = multiprocessing.process.current_process()._config  # has the folder, once it is known
        nowhere = mock.patch.object(tempfile, "_candidate_tempdir_list", lambda: [str(self.folder / "none")])
        with mock.patch.object(tempfile, "tempdir", None), nowhere, mock.patch.dict(settings):
            settings.pop("tempdir", None)
            order, loader = self.loader(1)
            order.expect(0, [1], [1])
            loader.begin()
            with self.assertRaises(NotSent) as raised:
                loader.next((0, 1))
        self.assertIn("TMPDIR", hint_for(raised.exception), raised.exception)
        self.assertNotIn("picklable", hint_for(raised.exception))

    def test_a_process_ignores_what_signals_its_group(self):
        self.let_go()
        order, loader = self.loader(1)
        order.expect(0, [0], [0])
        loader.begin()
        pid = int(loader.next((0, 0))[2][0])
        self.assertNotEqual(pid, os.getpid())
        ignored = int(re.search(r"^SigIgn:\s+(\w+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1], 16)
        self.assertTrue(all(ignored >> (n - 1) & 1 for n in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)))

    def test_a_new_order_leaves_out_what_was_prefetched(self):
        order, loader = self.loader(1)
        order.expect(0, [0, 1], [0, 1])
        loader.begin()
        self.wait_for_sample(3)
        loader.end()
        self.let_go()
        order.expect(10, [0, 1], [1])
        loader.begin()
        self.assertEqual(loader.next((10, 1))[1].tolist(), [index for _, index in samples(10, 1)])
        self.assertEqual(self.computed()[:5], [0, 1, 2, 3, samples(10, 1)[0][1]])

    def test_a_wait_for_samples_ends_with_an_abort(self):
        aborted = []

        def look():
            if aborted:
                raise Aborted
            aborted.append(True)

        order, loader = self.loader(1, look=look)
        order.expect(0, [0], [0])
        loader.begin()
        with self.assertRaises(Aborted):
            loader.next((0, 0))
        aborted.clear()
        self.let_go()
        order.expect(0, [1], [1])
        loader.begin()
        self.assertEqual(loader.next((0, 1))[1].tolist(), [index for _, index in samples(0, 1)])

    def test_storage_that_does_not_answer_is_no_error_of_the_script(self):
        self.let_go()
        wrapped = ValueError("no image")
        wrapped.__cause__ = OSError(errno.EIO, "io")
        for processes in (0, 1):
            for error, text in (
                (OSError(errno.ESTALE, "Stale file handle", "/data/5"), "OSError: [Errno 116] Stale file handle: '/data/5'"),
                (TimeoutError("timed out"), "TimeoutError: timed out"),
                (wrapped, "ValueError: no image"),
                (
                    KeyError(f"Unable to synchronously open object (file read failed: time = Mon\n, errno = {errno.EIO}, x)"),
                    "KeyError: 'Unable to synchronously open object (file read failed: time = Mon\\n, errno = 5, x)'",
                ),
            ):
                with self.subTest(processes=processes, error=error):
                    order, loader = self.loader(processes, error)
                    order.expect(0, [0], [0])
                    for is_away in (True, True, False):
                        path = self.folder / "away"
                        path.touch() if is_away else path.unlink()
                        loader.begin()
                        if is_away:
                            with self.assertRaises(StorageAway) as raised:
                                loader.next((0, 0))
                            self.assertEqual(one_line(raised.exception), f"train_data[5]: {text}")
                        else:
                            self.assertEqual(loader.next((0, 0))[1].tolist(), list(range(8)))

    def test_the_line_of_an_error(self):
        with self.assertRaises(SyntaxError) as raised:
            compile("x = 1\nif x:\n", "script.py", "exec")
        line = one_line(raised.exception)
        self.assertIn("expected an indented block", line)
        self.assertIn('(File "script.py", line 2', line)
        self.assertEqual(one_line(ValueError("first\n  second")), "ValueError: first")
        from_a_process = (
            "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
            '  File "a.py", line 1, in f\n    g()\n  File "a.py", line 9, in g\n    raise ValueError\n'
            "ValueError: what is wrong\nmore of it\n  and more"
        )
        self.assertEqual(one_line(ValueError(from_a_process)), "ValueError: what is wrong")

    def test_other_errors_are_told_with_the_sample(self):
        self.let_go()
        (self.folder / "away").touch()
        for processes in (0, 1):
            for error in (FileNotFoundError(errno.ENOENT, "gone"), PermissionError(errno.EACCES, "denied"), KeyError("x")):
                order, loader = self.loader(processes, error)
                order.expect(0, [0], [0])
                loader.begin()
                with self.assertRaises(SampleError) as raised:
                    loader.next((0, 0))
                self.assertNotIsInstance(raised.exception, StorageAway)
                self.assertEqual(one_line(raised.exception), f"train_data[5]: {one_line(error)}")

    def test_test_samples_come_from_the_processes_with_the_same_bits(self):
        self.let_go()
        found = {}
        for processes in (0, 2):
            order = EvaluationOrder(count=50, batch=16, micro_batch=4)
            order.micro_batches = [2, 1]  # as the gradients are added; an evaluation ascends
            loader = _loader.Loader(Samples(self.folder), order, key, None, processes)
            batches = [(4, 4), (8, 4), (20, 4), (24, 4), (36, 4), (40, 4)]
            loaded = [loader.next_at(place) for place in batches[:3] + batches]  # the first evaluation is left
            for _, _, pids in loaded:
                self.assertEqual((pids == os.getpid()).any().item(), processes == 0)
            found[processes] = torch.cat([values for values, _, _ in loaded]).tolist()
            self.assertEqual([i for _, numbers, _ in loaded[3:] for i in numbers.tolist()],
                             [i for first, count in batches for i in range(first, first + count)])  # fmt: skip
        self.assertEqual(found[0], found[2])

    def test_a_generator_of_the_data_set_that_follows_the_samples_key(self):
        class Augmented(Samples):
            def __init__(self, folder):
                super().__init__(folder)
                self.set_random_seed(0)

            def set_random_seed(self, seed):
                self.generator = numpy.random.default_rng(seed)

            def __getitem__(self, index):
                self.set_random_seed(torch.initial_seed() & 0xFFFFFFFF)
                return float(self.generator.random())

        values = []
        for processes, micro_batches in ((0, [0, 1]), (1, [1, 0]), (2, [0, 1])):
            order = StepOrder(samples)
            loader = _loader.Loader(Augmented(self.folder), order, key, None, processes)
            order.expect(0, micro_batches, micro_batches)
            loader.begin()
            loaded = {micro_batch: loader.next((0, micro_batch)).tolist() for micro_batch in micro_batches}
            values.append(loaded[0] + loaded[1])
        self.assertEqual(values[1], values[0])
        self.assertEqual(values[2], values[0])
        self.assertEqual(len(set(values[0])), 2 * MICRO_BATCH)

    def test_a_data_set_gets_the_epoch_of_its_sample(self):
        class Curriculum(torch.utils.data.Dataset):
            calls = []

            def __len__(self):
                return 1000

            def set_epoch(self, epoch):
                self.epoch, self.shift = epoch, torch.rand(())
                self.calls.append(epoch)

            def __getitem__(self, index):
                return torch.tensor(self.epoch), self.shift, torch.rand(())

        def of_two_epochs(step, micro_batch):
            place = (2 * step + micro_batch) * MICRO_BATCH
            return [((place + i) // 20, (place + i) % 20) for i in range(MICRO_BATCH)]

        def loaded(processes, places):
            order = StepOrder(of_two_epochs)
            loader = _loader.Loader(Curriculum(), order, key, None, processes)
            self.addCleanup(loader.close)
            order.expect(places[0][0], [0, 1], [0, 1])
            loader.begin()
            return {place: torch.stack(loader.next(place)).tolist() for place in places}

        every = [(step, micro_batch) for step in range(5) for micro_batch in (0, 1)]
        expected = loaded(0, every)
        self.assertEqual(expected[1, 0][0], [0.0] * 4 + [1.0] * 4)
        self.assertEqual(Curriculum.calls[:4], [0, 1, 2, 3])
        self.assertEqual(loaded(2, every), expected)
        later = loaded(1, every[4:])
        self.assertEqual(later, {place: expected[place] for place in later})
        data = Curriculum()
        tests = EvaluationOrder(16, 8, 8)
        loader = _loader.Loader(data, tests, key, None, 0)
        with self.assertRaises(SampleError):
            loader.next_at((0, 8))  # test samples are of no epoch
        self.assertFalse(hasattr(data, "epoch"))

    def test_a_process_has_no_private_descriptor(self):
        class Open(Samples):
            def __getitem__(self, index):
                return [int(os.path.exists(f"/proc/self/fd/{each}")) for each in (private, own)]

        with open(os.devnull) as file, open(os.devnull) as other:
            private, own = file.fileno(), other.fileno()
            _process.private_descriptors.add(private)
            self.addCleanup(_process.private_descriptors.clear)
            order = StepOrder(samples)
            loader = _loader.Loader(Open(self.folder), order, key, None, 1)
            order.expect(0, [0], [0])
            loader.begin()
            is_private_open, is_own_open = loader.next((0, 0))
            self.assertEqual((is_private_open.sum(), is_own_open.sum()), (0, MICRO_BATCH))


if __name__ == "__main__":
    os._exit(not unittest.main(exit=False).result.wasSuccessful())  # the processes heed no TERM, and end with this one
