"""Micro-batches ahead of the step, from a DataLoader whose sampler follows the run's sample order."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing import connection
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data._utils import signal_handling
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from rekindle._errors import RekindleError
from rekindle._process import die_with_parent, ignore_group_signals
from rekindle._random import seed_all

# torch would raise the death of a loader process from a signal handler, at any place, where nothing can be mended. It is
# found here instead, when samples are waited for.
signal_handling._SIGCHLD_handler_set = True
_MultiProcessingDataLoaderIter._try_get_data.__defaults__ = (0.5,)  # seconds between two looks; torch's are 5 s apart
_MOST_REPAIRS = 3  # for one micro-batch

Samples = Callable[[int, int], "list[tuple[int, int]]"]  # (step, micro-batch) -> epoch and index of each
Key = Callable[[int, int], int]  # (epoch, index) -> of a sample's random numbers
TEST_EPOCH = 2**64 - 1  # of the keys of test samples
_WORKERS_DESCRIPTORS = (3, 4)  # of the trainer: the socket to its worker, and its lifeline


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """As in a process of a DataLoader: samples have the same bits wherever they are loaded."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def make_dataset(given: Any, name: str, key: int) -> Dataset:
    """The data set that an argument of run() is, or makes. `key`: of the random numbers that it draws."""
    seed_all(key)
    makes = isinstance(given, type) or (callable(given) and not hasattr(given, "__getitem__"))
    made = given() if makes else given
    if isinstance(made, IterableDataset) or not hasattr(made, "__getitem__") or not hasattr(made, "__len__"):
        raise RekindleError(
            f"{name} is {type(made).__name__}, which has no __getitem__ and __len__",
            "use a map-style data set: a run repeats and resumes from any sample",
        )
    if len(made) == 0:
        raise RekindleError(f"{name} has no samples")
    return made


class Seeded(Dataset):
    """A data set whose samples draw the same random numbers whoever loads them. An index is (epoch, index)."""

    def __init__(self, dataset: Dataset, key: Key) -> None:
        self.dataset, self.key = dataset, key

    def __getitem__(self, place: tuple[int, int]) -> Any:
        seed_all(self.key(*place))
        return self.dataset[place[1]]


def _start_loader_process(_: int) -> None:
    """Runs first in a process of the DataLoader: its trainer alone decides when it ends."""
    die_with_parent()
    ignore_group_signals()
    for descriptor in _WORKERS_DESCRIPTORS:
        try:
            os.close(descriptor)
        except OSError:
            pass


class _Watch:
    """Ends the wait for a process of a DataLoader that was killed while it wrote a batch into the pipe: the pipe ends
    only when no process can write into it any more, and the other processes and the trainer itself could.
    """

    def __init__(self, batches: Any) -> None:
        self.first_dead: Any = None  # a process
        self._processes, self._queue = getattr(batches, "_workers", []), getattr(batches, "_worker_result_queue", None)
        if self._processes:
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        sentinels = {process.sentinel: process for process in self._processes}
        self.first_dead = sentinels[connection.wait(list(sentinels))[0]]
        for process in self._processes:
            process.kill()
            process.join(60)
        with contextlib.suppress(OSError):
            self._queue._writer.close()


class _Plan:
    """The batch sampler: the micro-batches that come next, as lists of (epoch, index)."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.step, self.first, self.all = 0, [], []  # type: int, list[int], list[int]
        self.asked: deque[tuple[int, int]] = deque()  # those that were handed to the loader

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        step, micro_batches = self.step, self.first
        while self.all:
            for micro_batch in micro_batches:
                self.asked.append((step, micro_batch))
                yield self.samples(step, micro_batch)
            step, micro_batches = step + 1, self.all


class Loader:
    """Loads micro-batches in the order of expect_steps(). Its processes outlive generations."""

    def __init__(
        self, dataset: Dataset, samples: Samples, key: Key, collate: Callable | None, processes: int, pins: bool = False
    ) -> None:
        """`pins`: batches come in locked memory, from which a GPU copies faster, and while it computes."""
        self._plan = _Plan(samples)
        self._make = lambda: DataLoader(
            Seeded(dataset, key),
            batch_sampler=self._plan,
            num_workers=processes,
            collate_fn=collate,
            worker_init_fn=_start_loader_process if processes > 0 else None,
            persistent_workers=processes > 0,
            pin_memory=pins,
            multiprocessing_context="fork" if processes > 0 else None,
        )
        self._start()  # forks, while the plan is empty: before the state and any thread exist

    def expect_steps(self, step: int, every: list[int], first: list[int]) -> None:
        self._plan.step, self._plan.all, self._plan.first = step, every, first
        try:
            self._begin()
        except Exception as error:
            if not self._dead(error):
                raise
            self._replace()

    def _start(self) -> None:
        self._loader = self._make()
        self._begin()
        self._watch = _Watch(self._batches)

    def _begin(self) -> None:
        self._plan.asked.clear()
        self._batches = iter(self._loader)

    def next(self, step: int, micro_batch: int) -> Any:
        """The samples of a micro-batch, which has to be the next one. Processes that have died are replaced."""
        for repairs in range(_MOST_REPAIRS + 1):
            try:
                with one_thread():
                    batch = next(self._batches)
                break
            except Exception as error:
                dead = self._dead(error)
                if not dead:
                    raise
                if repairs == _MOST_REPAIRS:
                    raise RekindleError(
                        f"the processes that load the samples of step {step}, micro-batch {micro_batch} die: {dead}",
                        "what does the data set do there?",
                    ) from error
                self._go_on_from(step, micro_batch)
        if (came := self._plan.asked.popleft()) != (step, micro_batch):
            raise RuntimeError(f"the loader is at {came}, not at {(step, micro_batch)}")
        return batch

    def _dead(self, error: Exception) -> str:
        """How one of its processes ended, of which `error` is the sign; empty: none has."""
        # A process that dies closes its connections before it can be waited for.
        limit = time.monotonic() + (2.0 if isinstance(error, (OSError, EOFError)) else 0.0)
        while True:
            for process in [self._watch.first_dead, *getattr(self._batches, "_workers", [])]:
                if process is not None and not process.is_alive():
                    code = process.exitcode or 0
                    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
            if time.monotonic() >= limit:
                return ""
            time.sleep(0.01)

    def _go_on_from(self, step: int, micro_batch: int) -> None:
        order = self._plan.first if step == self._plan.step else self._plan.all
        self._plan.step, self._plan.first = step, order[order.index(micro_batch) :]
        self._replace()

    def _replace(self) -> None:
        """New processes, which begin with the plan's first micro-batch."""
        self._batches = self._loader = None  # ends the other processes
        self._start()
