"""The worker process of a broker: spawned when there is work for it, ended when it has had none for a while.

It is told of a generator function and its arguments, advances the generator and sends back each value that it yields,
then its result or its error. It keeps nothing between two pieces of work. A worker that is killed, by the kernel for
its memory perhaps, or because its work is called off, is replaced by the next piece of work.

`Worker.run` waits and belongs into a thread of its own, always the same one: on Linux the kernel ends the worker when
the thread that spawned it ends, so that none outlives its broker and writes where the next one does.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final

_JOIN_S: Final = 5.0
_NICE: Final = 10
_SET_PARENT_DEATH_SIGNAL: Final = 1

Steps = Generator[Any, None, Any]


class WorkerLost(Exception):
    """The worker process ended while it was at work."""


@dataclass(slots=True, frozen=True)
class Pause:
    """Yielded by a generator that wants to be advanced no sooner than after so many milliseconds."""

    ms: int


@dataclass(slots=True, frozen=True, eq=False)
class Task:
    """What the worker is told. A patient one makes it give way to others for the rest of its life."""

    steps: Callable[..., Steps]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    is_patient: bool


class _Kind(Enum):
    REPORT = 0
    RESULT = 1
    ERROR = 2


class Worker:
    """The broker's side."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._line: Connection | None = None
        self._lock = threading.Lock()
        self._task: Task | None = None
        self._called_off: Task | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def run(self, task: Task, report: Callable[[Any], None]) -> Any:
        """Have the task done; `report` is called, in this thread, with what it yields. Raises what it raises.

        Raises WorkerLost as well.
        """
        with self._lock:
            self._task = task
        try:
            line = self._line or self._spawn()
            line.send(task)
            while True:
                kind, value = line.recv()
                if kind is _Kind.REPORT:
                    report(value)
                elif kind is _Kind.RESULT:
                    return value
                else:
                    raise value
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            self.end()
            raise WorkerLost("the worker process ended while it was at work") from error
        finally:
            with self._lock:
                self._task = None

    def call_off(self, task: Task | None = None) -> None:
        """End that task, or whichever is under way, at once; from any thread. `run` raises WorkerLost then."""
        with self._lock:
            if self._task is not None and task in (None, self._task):
                self._called_off = self._task
                if self._process is not None:
                    self._process.kill()

    def end(self) -> None:
        """End the process, if there is one; in the thread of `run`."""
        with self._lock:
            process, line = self._process, self._line
            self._process = self._line = self._called_off = None
        if line is not None:
            line.close()
        if process is not None:
            process.kill()
            process.join(_JOIN_S)

    def _spawn(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, os.getpid()), name="barnabas worker", daemon=True)
        process.start()
        theirs.close()
        with self._lock:
            self._process, self._line = process, ours
            if self._called_off is not None and self._called_off is self._task:
                process.kill()
        return ours


def _work(line: Connection, broker: int) -> None:
    """The worker's side: one task after the other until the broker closes the line or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(broker)
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
            answer = _Kind.RESULT, _advance(task, line)
        except BrokenPipeError:
            return
        except Exception as error:  # noqa: BLE001 - it is whoever waits who handles it
            answer = _Kind.ERROR, error
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
            line.send((_Kind.REPORT, value))


def _send(line: Connection, kind: _Kind, value: Any) -> None:
    try:
        line.send((kind, value))
    except (AttributeError, TypeError, ValueError) as error:
        line.send((_Kind.ERROR, RuntimeError(f"what the worker has to say cannot be sent: {value!r}: {error}")))


def _end_with(broker: int) -> None:
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != broker:
        os._exit(0)
