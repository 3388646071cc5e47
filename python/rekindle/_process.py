"""Signals and ends of the processes of a run."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_MULTIPROCESSING = "multiprocessing", "multiprocess"  # the second one is that of Hugging Face's datasets
private_descriptors: set[int] = set()  # of this process: those that it forks close them


def descriptors() -> set[int]:
    """The open ones."""
    # The folder itself is open while it is listed.
    return {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}


def sockets(among: set[int]) -> set[int]:
    return {each for each in among if stat.S_ISSOCK(os.fstat(each).st_mode)}


def close_private_descriptors() -> None:
    """Those that this process inherited by a fork, and the library's shared memory, which would live as long as it."""
    for descriptor in descriptors():
        with contextlib.suppress(OSError):
            if descriptor in private_descriptors or os.readlink(f"/proc/self/fd/{descriptor}").startswith("/memfd:rekindle-"):
                os.close(descriptor)


def die_with_parent() -> None:
    """The kernel kills this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_if_forked(process: int) -> None:
    """Ends this process if it is another one: a script that forks must not have two processes that train."""
    if os.getpid() != process:
        os._exit(1)


def end_children() -> None:
    """Ends the processes that the script started with multiprocessing: they would outlive this one."""
    for name in _MULTIPROCESSING:
        if (module := sys.modules.get(name)) is not None:
            for child in module.active_children():
                child.kill()


def end_process(code: int) -> NoReturn:
    """Ends this process at once, and those that the script started with multiprocessing."""
    end_children()
    os._exit(code)


def _ignores_sigterm(pid: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("SigIgn:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def let_terminate_end() -> None:
    """For the script's processes of multiprocessing. SIGTERM is ignored in this process and therefore in those that have no
    handler: after their terminate(), as at the end of `with Pool(...)`, multiprocessing would wait for them for ever.
    """
    for name in _MULTIPROCESSING:
        with contextlib.suppress(ImportError):
            # The class of "spawn" and "forkserver" inherits from this one.
            popen = importlib.import_module(f"{name}.popen_fork").Popen

            def terminate(self: Any, usual: Callable[[Any], None] = popen.terminate) -> None:
                if _ignores_sigterm(self.pid):
                    self.kill()
                else:
                    usual(self)

            popen.terminate = terminate


def set_oom_score(value: str) -> str:
    """Sets this process's oom_score_adj, and returns what it was."""
    usual = ""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "r+") as file:
        usual = file.read()
        file.seek(0)
        file.write(value)
    return usual


def wait_for_threads() -> None:
    """As Python does at its end: one of a script's threads may call run()."""
    this = threading.current_thread()
    while others := [each for each in threading.enumerate() if not each.daemon and each is not this]:
        others[0].join()


def ignore_group_signals() -> None:
    """Ctrl-C, scancel and the like reach every process of a group."""
    set_signal = signal.signal
    if threading.current_thread() is not threading.main_thread():  # of Python's functions, only that one may
        set_signal = ctypes.CDLL(None).signal
        set_signal.argtypes, set_signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        set_signal(number, signal.SIG_IGN)


def _terminal_signals_child() -> bool:
    """Whether Ctrl-C reaches this process from its terminal, which signals all processes of its foreground group."""
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:  # it has none
        return False


def run_program(command: list[str], environment: dict[str, str], folder: str | None) -> int:
    """Runs a program to its end, in a folder (None: this one), and passes on what is sent to this process alone. Ctrl-C
    reaches both from the terminal. Without one, SIGINT may have been sent to the group, too, and a second one would end the
    run without saving: SIGTERM is passed on in its place.

    Only the main thread can do so: in another one, signals have their usual effect. Returns what Popen.wait() returns.
    """
    child: subprocess.Popen | None = None
    early: list[int] = []  # before there is a child

    def pass_on(number: int, _: FrameType | None) -> None:
        passed = signal.SIGTERM if number == signal.SIGINT else number
        if child is None:
            early.append(passed)
        elif number != signal.SIGINT or not _terminal_signals_child():
            child.send_signal(passed)

    before: dict[int, object] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT):
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
                    before[number] = signal.signal(number, pass_on)
        child = subprocess.Popen(command, env=environment, cwd=folder)
        for number in early:
            child.send_signal(number)
        return child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: one of C
