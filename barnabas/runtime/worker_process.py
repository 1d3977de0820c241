"""The worker's side of worker.py: `python -m barnabas.runtime.worker_process DESCRIPTOR BROKER_PID`.

One task after the other, until the broker closes the line or is gone.
"""

import ctypes
import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any, Final

from barnabas.runtime.worker import Kind, Pause, Task

_NICE: Final = 10
_SET_PARENT_DEATH_SIGNAL: Final = 1


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
            os.nice(_NICE)
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


def _end_with(broker: int) -> None:
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != broker:
        os._exit(0)


if __name__ == "__main__":
    main()
