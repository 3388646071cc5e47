"""Batches ahead of their use, from a DataLoader whose sampler follows the run's sample order."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection, context, queues
from typing import Any, Protocol

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import DataLoader, Dataset, default_collate
from torch.utils.data._utils import signal_handling
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from rekindle._data import STALE, Generation, Key, Place, Samples, Seeded
from rekindle._errors import SMALL_SHM, NotSent, RekindleError, one_line
from rekindle._process import close_private_descriptors, die_with_parent, ignore_group_signals

# torch would raise the death of a loader process from a signal handler, at any place, where nothing can be mended. It is
# found here instead, when samples are waited for.
signal_handling._SIGCHLD_handler_set = True
_LOOK_S = 0.1  # between two looks for an abort or a death; torch's are 5 s apart
_MOST_REPAIRS = 3  # for one batch
_HINTS = {
    f"killed by signal {signal.SIGBUS:d}": f"{SMALL_SHM}. Or was a file cut short that the data set has mapped?",
    f"killed by signal {signal.SIGKILL:d}": "most often too little memory: use fewer loader_threads",
}


class Order(Protocol):
    """Batches in the order in which they are needed."""

    argument: str  # of run(), whose samples they are

    def __iter__(self) -> Iterator[tuple[Place, Samples]]: ...

    def go_on_from(self, place: Place) -> None: ...

    def name(self, place: Place) -> str: ...


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


def _reopen_files() -> None:
    """A file that the data set keeps open gets a position of its own: processes that seek and read in one that they
    share would read each other's records.
    """
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # one of listdir() itself, or a file that may not be opened again
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            if flags & os.O_ACCMODE != os.O_RDONLY or not stat.S_ISREG(os.fstat(descriptor).st_mode):
                continue
            own = os.open(f"/proc/self/fd/{descriptor}", flags & ~os.O_CREAT)
            try:
                os.lseek(own, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
                os.dup2(own, descriptor, inheritable=os.get_inheritable(descriptor))
            finally:
                os.close(own)


def _start_loader_process(_: int) -> None:
    """Runs first in a process of the DataLoader: its trainer alone decides when it ends."""
    die_with_parent()
    ignore_group_signals()
    close_private_descriptors()
    _reopen_files()


class _Queue(queues.Queue):
    """Puts an error in the place of a batch that cannot be sent. A plain queue finds this in a thread, which prints the
    error and leaves the batch out: the trainer would wait for ever.
    """

    def _on_queue_feeder_error(self, error: Exception, item: Any) -> None:
        if not isinstance(item, tuple):  # it was pickled: the trainer has ended
            return
        sent = NotSent(f"a batch cannot be sent by the process that loaded it: {one_line(error)}")
        where = "in DataLoader worker process"  # as one_line() knows it
        self.put((item[0], ExceptionWrapper((NotSent, sent, error.__traceback__), where)))


class _Context(context.ForkContext):
    def Queue(self, maxsize: int = 0) -> _Queue:  # noqa: N802
        return _Queue(maxsize, ctx=self.get_context())


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


class _Batches(_MultiProcessingDataLoaderIter):
    """Looks for an abort while it waits for a batch."""

    look: Callable[[], None] | None = None

    def __init__(self, loader: DataLoader) -> None:
        self._owner = os.getpid()
        super().__init__(loader)

    def __del__(self) -> None:
        if os.getpid() == self._owner:  # a process that was forked later cannot end the others
            super().__del__()

    def _try_get_data(self, timeout: float = _LOOK_S) -> tuple[bool, Any]:
        if self.look is not None:
            self.look()
        return super()._try_get_data(timeout)


class _DataLoader(DataLoader):
    def _get_iterator(self) -> Any:
        if self.num_workers == 0:
            return super()._get_iterator()
        self.check_worker_number_rationality()
        return _Batches(self)


class _Plan:
    """The batch sampler: lists of (generation, epoch, index)."""

    def __init__(self, order: Iterable[tuple[Place, Samples]], generation: Generation) -> None:
        self.order, self.generation = order, generation
        self.asked: deque[Place] = deque()  # of the batches that were handed to the loader

    def __iter__(self) -> Iterator[list[tuple[int, int, int]]]:
        for place, samples in self.order:
            self.asked.append(place)
            yield [(self.generation.number, epoch, index) for epoch, index in samples]


class _Collate:
    def __init__(self, given: Callable | None) -> None:
        self.given = given or default_collate

    def __call__(self, samples: list) -> Any:
        return None if any(sample is STALE for sample in samples) else self.given(samples)


class Loader:
    """Loads batches in an order. Its processes outlive generations."""

    def __init__(
        self, dataset: Dataset, order: Order, key: Key, collate: Callable | None, processes: int, pins: bool = False,
        look: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """`pins`: batches come in locked memory, from which a GPU copies faster, and while it computes. `look` is called
        now and then while next() waits, and may raise.
        """
        self._generation = Generation()
        self._order, self._look = order, look
        self._plan = _Plan(order, self._generation)
        self._make = lambda: _DataLoader(
            Seeded(dataset, order.argument, key, self._generation),
            batch_sampler=self._plan,
            num_workers=processes,
            collate_fn=_Collate(collate),
            worker_init_fn=_start_loader_process if processes > 0 else None,
            persistent_workers=processes > 0,
            pin_memory=pins,
            multiprocessing_context=_Context() if processes > 0 else None,
        )
        # Forks, while the order is empty. CUDA may be in use by then, and _replace() forks while threads run. The new
        # processes only load samples.
        self._start()

    def begin(self) -> None:
        """Begins with the first batch of the order."""
        self.end()
        try:
            self._begin()
        except Exception as error:
            if not self._dead(error):
                raise
            self._replace()

    def end(self) -> None:
        """What is being loaded is not needed: its other samples are left out."""
        self._generation.end()

    def close(self) -> None:
        """Ends its processes."""
        self._batches = self._loader = None

    def _start(self) -> None:
        self._loader = self._make()
        self._begin()
        self._watch = _Watch(self._batches)

    def _begin(self) -> None:
        self._plan.asked.clear()
        self._batches = iter(self._loader)

    def next(self, place: Place) -> Any:
        """A batch, which has to be the next one of the order. Processes that have died are replaced."""
        for repairs in range(_MOST_REPAIRS + 1):
            try:
                batch = self._take()
                break
            except Exception as error:
                dead = self._dead(error)
                if not dead:
                    self._plan.asked.clear()
                    raise
                if repairs == _MOST_REPAIRS:
                    raise RekindleError(
                        f"the processes that load {self._order.name(place)} die: {dead}",
                        _HINTS.get(dead, "what does the data set do there?"),
                    ) from error
                self._order.go_on_from(place)
                self._replace()
        if (came := self._plan.asked.popleft()) != place:
            raise RuntimeError(f"the loader is at {came}, not at {place}")
        return batch

    def next_at(self, place: Place) -> Any:
        """A batch of the order, from which it goes on."""
        if not self._plan.asked or self._plan.asked[0] != place:
            self._order.go_on_from(place)
            self.begin()
        return self.next(place)

    def _take(self) -> Any:
        batches = self._batches
        with one_thread():
            if not isinstance(batches, _Batches):
                return next(batches)
            batches.look = self._look
            try:
                return next(batches)
            finally:
                batches.look = None

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

    def _replace(self) -> None:
        """New processes, which begin with the order's first batch."""
        self.close()
        self._start()
