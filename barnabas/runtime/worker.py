"""The worker process of a broker: started when there is work for it, ended when it has had none for a while.

It is a fresh interpreter that loads what it is told to run and nothing else of its broker, which would cost it 50 MB
(worker_process.py). It is told of a generator function and its arguments, advances the generator and sends back each
value that it yields, then its result or its error. It keeps nothing between two pieces of work. A worker that is
killed, by the kernel for its memory perhaps, or because its work is called off, is replaced by the next piece of work.

`Worker.run` waits and belongs into a thread of its own, always the same one: on Linux the kernel ends the worker when
the thread that started it ends, so that none outlives its broker and writes where the next one does.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from barnabas.runtime.packages import environment_with, own_root

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_END_S: Final = 5.0
_PROGRAM: Final = "barnabas.runtime.worker_process"

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


class Kind(Enum):
    """What the worker sends."""

    REPORT = 0
    RESULT = 1
    ERROR = 2


class Worker:
    """The broker's side."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
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
            line = self._line or self._start()
            line.send(task)
            while True:
                kind, value = line.recv()
                if kind is Kind.REPORT:
                    report(value)
                elif kind is Kind.RESULT:
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
            process.wait(_END_S)

    def _start(self) -> "Connection":
        # Loaded with the first worker: most brokers need none for long.
        from multiprocessing.connection import Pipe  # noqa: PLC0415

        ours, theirs = Pipe()
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-P", "-m", _PROGRAM, str(theirs.fileno()), str(os.getpid())],
                # Our packages, and not others of that name where the working directory is.
                env=environment_with(own_root()),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        with self._lock:
            self._process, self._line = process, ours
            if self._called_off is not None and self._called_off is self._task:
                process.kill()
        ours.send(sys.path)
        return ours
