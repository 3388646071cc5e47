"""How a process of a run ends: with its parent, and by no signal that is meant for the parent."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """The kernel kills this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_if_forked(process: int) -> None:
    """Ends this process if it is another one: a script that forks must not have two processes that train."""
    if os.getpid() != process:
        os._exit(1)


def ignore_group_signals() -> None:
    """Ctrl-C, scancel and the like reach every process of a group."""
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
