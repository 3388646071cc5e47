"""Data sets whose samples are the same whoever loads them, and the orders in which a trainer needs them."""

from __future__ import annotations

import ctypes
import errno
import mmap
import re
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset

from rekindle._errors import RekindleError, SampleError, StorageAway, can_take, one_line
from rekindle._random import seed_all

Place = tuple[int, int]  # of a batch: step and micro-batch, or the first test sample and their number
Samples = list[tuple[int, int]]  # epoch and index of each
Key = Callable[[int, int], int]  # (epoch, index) -> of a sample's random numbers
TEST_EPOCH = 2**64 - 1  # of the keys of test samples
_AWAY = {
    errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ESHUTDOWN, errno.ECONNABORTED, errno.ECONNREFUSED,
    errno.ECONNRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH,
    errno.ENOLINK, errno.EREMOTEIO,
}  # fmt: skip
_MOST_SAMPLES = 0xFFFFFFFF  # the order of an epoch has numbers of 32 bits
_NO_INDEX = _MOST_SAMPLES  # in the key of set_epoch(): that of no sample
_ERRNO_OF_HDF5 = re.compile(r"file read failed: .*?\berrno = (\d+)", re.DOTALL)  # h5py has it in the text alone
STALE = object()  # in place of a sample that nobody waits for any more


def make_dataset(given: Any, name: str, key: int) -> Dataset:
    """The data set that an argument of run() is, or makes. `key`: of the random numbers that it draws."""
    seed_all(key)
    makes = isinstance(given, type) or (callable(given) and not hasattr(given, "__getitem__"))
    made = given() if makes else given
    if isinstance(made, DataLoader):
        raise RekindleError(
            f"{name} is a DataLoader", "give its dataset; batch_size, collate and loader_threads are arguments of run()"
        )
    if isinstance(made, IterableDataset) or not hasattr(made, "__getitem__") or not hasattr(made, "__len__"):
        raise RekindleError(
            f"{name} is {type(made).__name__}, which has no __getitem__ and __len__",
            "use a map-style data set: a run repeats and resumes from any sample",
        )
    if len(made) == 0:
        raise RekindleError(f"{name} has no samples")
    if len(made) > _MOST_SAMPLES:
        raise RekindleError(
            f"{name} has {len(made)} samples, more than {_MOST_SAMPLES}",
            "let a sample be longer: contexts of a text that do not overlap, len(tokens) // context",
        )
    return made


def _is_away(error: BaseException | None) -> bool:
    """Whether a later try may succeed: the storage does not answer."""
    while error is not None:
        if isinstance(error, OSError) and (error.errno in _AWAY or isinstance(error, TimeoutError)):
            return True
        found = _ERRNO_OF_HDF5.search(str(error)) if isinstance(error, (KeyError, RuntimeError)) else None
        if found and int(found[1]) in _AWAY:
            return True
        error = error.__cause__
    return False


def sample_of(dataset: Dataset, name: str, index: int) -> Any:
    """`name`: of the argument of run(). Errors: a SampleError."""
    return _asked(lambda: dataset[index], f"{name}[{index}]")


def _set_epoch(dataset: Any, name: str, epoch: int) -> None:
    """Errors: as of sample_of()."""
    _asked(lambda: dataset.set_epoch(epoch), f"{name}.set_epoch({epoch})")


def _asked(ask: Callable[[], Any], what: str) -> Any:
    """What the data set answers. Errors: a SampleError that begins with `what`."""
    try:
        return ask()
    except RekindleError:
        raise
    except Exception as error:
        kind = StorageAway if _is_away(error) else SampleError
        raise kind(f"{what}: {one_line(error)}") from error


class Generation:
    """The number of the order that is being loaded, for the processes of a loader, too."""

    def __init__(self) -> None:
        self._number = ctypes.c_uint64.from_buffer(mmap.mmap(-1, ctypes.sizeof(ctypes.c_uint64)))  # shared over fork()

    @property
    def number(self) -> int:
        return self._number.value

    def end(self) -> None:
        self._number.value += 1


class Seeded(Dataset):
    """A data set whose samples draw the same random numbers whoever loads them. An index is (generation, epoch, index).
    If it has set_epoch(epoch), this is called when a sample is of another epoch than the one before, in each process.
    """

    def __init__(self, dataset: Dataset, name: str, key: Key, generation: Generation) -> None:
        """`name`: of the argument of run()."""
        self.dataset, self.name, self.key, self.generation = dataset, name, key, generation
        try:
            set_epoch = getattr(dataset, "set_epoch", None)
        except Exception:  # of a __getattr__ that looks into a dictionary
            set_epoch = None
        self.has_epochs = callable(set_epoch) and can_take(set_epoch, 1)
        self.epoch = TEST_EPOCH  # that the data set has been told in this process; test samples belong to none

    def __getitem__(self, place: tuple[int, int, int]) -> Any:
        generation, epoch, index = place
        if generation != self.generation.number:
            return STALE
        if self.has_epochs and epoch not in (self.epoch, TEST_EPOCH):
            # What it draws must not depend on the sample that happens to be the first one here.
            seed_all(self.key(epoch, _NO_INDEX))
            _set_epoch(self.dataset, self.name, epoch)
            self.epoch = epoch
        seed_all(self.key(epoch, index))
        return sample_of(self.dataset, self.name, index)


class StepOrder:
    """The micro-batches that come next: `first` of a step, then `every` one of each later step."""

    argument = "train_data"

    def __init__(self, samples: Callable[[int, int], Samples]) -> None:
        """`samples`: of (step, micro-batch)."""
        self._samples = samples
        self._step, self._first, self.every = 0, [], []  # type: int, list[int], list[int]

    def expect(self, step: int, every: list[int], first: list[int]) -> None:
        self._step, self.every, self._first = step, every, first

    def go_on_from(self, place: Place) -> None:
        order = self._first if place[0] == self._step else self.every
        self._step, self._first = place[0], order[order.index(place[1]) :]

    def name(self, place: Place) -> str:
        return f"the samples of step {place[0]}, micro-batch {place[1]}"

    def __iter__(self) -> Iterator[tuple[Place, Samples]]:
        step, micro_batches = self._step, self._first
        while self.every:
            for micro_batch in micro_batches:
                yield (step, micro_batch), self._samples(step, micro_batch)
            step, micro_batches = step + 1, self.every


class EvaluationOrder:
    """The test samples of the micro-batches of one trainer: of each `batch`, those of its `micro_batches`."""

    argument = "test_data"

    def __init__(self, count: int, batch: int, micro_batch: int) -> None:
        """Numbers of samples: of all, of a batch and of a micro-batch."""
        self._count, self._batch, self._micro_batch = count, batch, micro_batch
        self._from = count
        self.micro_batches = [0]

    def go_on_from(self, place: Place) -> None:
        self._from = place[0]

    def name(self, place: Place) -> str:
        return f"test samples from {place[0]} on"

    def __iter__(self) -> Iterator[tuple[Place, Samples]]:
        # What is asked for is always there. Of the others it only matters that they are most often the next ones.
        if self._from >= self._count:
            return
        yield self._at(self._from)
        for batch in range(self._from // self._batch * self._batch, self._count, self._batch):
            for number in sorted(self.micro_batches):
                first = batch + number * self._micro_batch
                if self._from < first < self._count:
                    yield self._at(first)

    def _at(self, first: int) -> tuple[Place, Samples]:
        count = min(self._micro_batch, self._count - first)
        return (first, count), [(TEST_EPOCH, index) for index in range(first, first + count)]
