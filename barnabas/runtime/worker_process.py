"""The worker's side of worker.py: `python -m barnabas.runtime.worker_process DESCRIPTOR BROKER_PID`.

One task after the other, until the broker closes the line or is gone.
"""

import ctypes
import os
import platform
import signal
import struct
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from barnabas.runtime.worker import Kind, Pause, Task

_NICE: Final = 10
_AUTOGROUP: Final = "/proc/self/autogroup"
_AUTOGROUP_TRIES: Final = 10
_SET_PARENT_DEATH_SIGNAL: Final = 1
_SCHED_SETATTR: Final = {"x86_64": 314, "aarch64": 274, "riscv64": 274, "ppc64le": 355, "s390x": 345}
"""The number of the system call; the C library has no name for it before glibc 2.41."""
_SCHED_ATTR: Final = struct.Struct("=IIQiIQQQ")
_SCHED_BATCH: Final = 3
_SLICE_NS: Final = 100_000


def main() -> None:
    """Work for the broker that started this process."""
    descriptor, broker = map(int, sys.argv[1:3])
    _work(Connection(descriptor), broker)


def _work(line: Connection, broker: int) -> None:
    """The worker's side: one task after the other until the broker closes the line or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(broker)
    sys.path[:] = line.recv()
    is_patient = False
    while True:
        try:
            task = line.recv()
        except (EOFError, OSError):
            return
        if task.is_patient and not is_patient:
            _give_way(line)
            is_patient = True
        try:
            answer = Kind.RESULT, _advance(task, line)
        except BrokenPipeError:
            return
        except Exception as error:  # noqa: BLE001 - it is whoever waits who handles it
            answer = Kind.ERROR, error
        _send(line, *answer)


def _advance(task: Task, line: Connection) -> Any:
    steps = task.steps(*task.arguments, **task.named)
    while True:
        try:
            value = next(steps)
        except StopIteration as done:
            return done.value
        if isinstance(value, Pause):
            # Nothing is ever sent meanwhile: what ends the pause early is the end of the line.
            line.poll(value.ms / 1000)
        else:
            line.send((Kind.REPORT, value))


def _send(line: Connection, kind: Kind, value: Any) -> None:
    try:
        line.send((kind, value))
    except (AttributeError, TypeError, ValueError) as error:
        line.send((Kind.ERROR, RuntimeError(f"what the worker has to say cannot be sent: {value!r}: {error}")))


def _give_way(line: Connection) -> None:
    """Let all others on the machine go first, from now on.

    Where Linux shares its processors among sessions (autogroup), what `nice` says counts within a session only; ours is
    the broker's, and its clients have others. So the worker gets a session of its own, which is as nice.
    """
    os.nice(_NICE)
    _run_in_short_slices()
    if not os.path.exists(_AUTOGROUP):
        return
    with suppress(OSError):
        os.setsid()
        # The kernel takes one such wish in 100 ms, of whomever it is.
        for _ in range(_AUTOGROUP_TRIES):
            try:
                Path(_AUTOGROUP).write_text(str(_NICE))
            except BlockingIOError:
                line.poll(0.1)
            else:
                return


def _run_in_short_slices() -> None:
    """Let who wakes up have the processor after 0.1 ms, the least that Linux takes, from 6.12 on.

    However nice a process is, what it began to run it may run to the end of its slice, 1.4 ms on two processors, and a
    kernel that does not preempt itself looks again at its next tick, which may be 4 ms later. A batch process takes the
    processor from nobody when it wakes up itself.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if number is not None:
        wish = _SCHED_ATTR.pack(_SCHED_ATTR.size, _SCHED_BATCH, 0, os.nice(0), 0, _SLICE_NS, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, wish, 0)


def _end_with(broker: int) -> None:
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != broker:
        os._exit(0)


if __name__ == "__main__":
    main()
