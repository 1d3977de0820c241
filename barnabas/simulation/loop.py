"""The event loop of a simulated world: a virtual clock, one order of events per seed, and processes that can die.

Time stands still while anything is ready and jumps to the next timer when nothing is. Every handle belongs to the
`Life` (one process, from its start to its end) that is named by the context in which it runs. Which life goes next is
drawn; within a life handles run in the order of asyncio, or with `shuffle` in a drawn one.

    alive -- hold --> held -- release --> alive        a held life (SIGSTOP, a disk that stalls) keeps what is ready
    alive -- end ---> dead                             its handles and timers are dropped, its tasks stay referenced

That tasks of the dead stay referenced matters: a coroutine that is collected runs its `finally`, a killed process
does not. `digest` is a rolling hash of everything that happened; it holds no address and no hash of a string.
"""

import asyncio
import contextlib
import gc
import heapq
import random
import sys
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar, TypeVarTuple, cast, final
from zlib import crc32

from barnabas.simulation.disk import Crashed

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LIFE: Final[ContextVar["Life"]] = ContextVar("life")
_MOST_STEPS_AT_ONCE: Final = 200_000
_DIGEST_MASK: Final = (1 << 63) - 1


class NothingHappens(AssertionError):
    """Somebody waits, and no timer could end the wait."""


class TimeStandsStill(AssertionError):
    """So many events without time passing that they would never end."""


class Life:
    """One process. `holds` counts the reasons why it does not run now."""

    __slots__ = ("busy_until_s", "context", "holds", "is_dead", "is_listed", "name", "number", "ready", "tasks")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.ready: deque[Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.holds = 0
        self.busy_until_s = 0.0
        self.is_dead = False
        self.is_listed = False
        self.context = Context()
        self.context.run(LIFE.set, self)

    def __repr__(self) -> str:
        return self.name


@final
class Handle:
    """A call to come; what the loop's `call_*` return."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "life", "when_s")

    def __init__(self, life: Life, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self.life = life
        self.callback = callback
        self.args = args
        self.context = context
        self.is_cancelled = False
        self.when_s = 0.0

    def cancel(self) -> None:
        self.is_cancelled = True
        self.args = ()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.when_s

    def label(self) -> str:
        """What is called, in words that are the same in every run."""
        owner = getattr(self.callback, "__self__", None)
        if isinstance(owner, asyncio.Task):
            return f"task {owner.get_name()}"
        return str(getattr(self.callback, "__qualname__", None) or type(self.callback).__name__)


class SimulatedTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address."""

    def __init__(self, coro: Any, *, number: int, life: Life, **options: Any) -> None:
        self._number = number
        self.life = life
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


Trace = Callable[[str], None]


class SimulationLoop(asyncio.AbstractEventLoop):  # what it lacks, nobody in a simulated world may ask for
    """See the module. `on_failure` is told of exceptions that nobody caught, with the life in which they arose."""

    def __init__(self, chance: random.Random, *, shuffle: float = 0.0) -> None:
        self.now_s = 0.0
        self.steps = 0
        self.digest = 0
        self.trace: Trace | None = None
        self.on_failure: Callable[[Life, str, BaseException | None], None] = _raise_failure
        self.lives: list[Life] = []
        self.world = self.life("world")
        self._draw = chance.random
        self._shuffle = shuffle
        self._active: list[Life] = []
        self._timers: list[tuple[float, float, int, Handle]] = []
        self._timer_count = 0
        self._task_count = 0
        self._steps_now = 0
        self._current = self.world
        self._is_closed = False
        self._is_running = False

    # Lives.

    def life(self, name: str) -> Life:
        """A new process."""
        life = Life(name, len(self.lives))
        self.lives.append(life)
        return life

    def current_life(self) -> Life:
        return LIFE.get(self.world)

    def end(self, life: Life) -> None:
        """Kill a process: nothing of it runs any more, no `finally` either."""
        life.is_dead = True
        life.ready.clear()
        self._unlist(life)

    def hold(self, life: Life) -> None:
        """Let a process stand still until it is released as often."""
        life.holds += 1
        self._unlist(life)

    def release(self, life: Life) -> None:
        life.holds -= 1
        if life.ready and not life.holds and not life.is_dead:
            self._list(life)

    def stall(self, life: Life, seconds: float) -> None:
        """The call that runs now takes so long: its process does nothing else until it is over."""
        started = max(self.now_s, life.busy_until_s)
        is_busy = life.busy_until_s > self.now_s
        life.busy_until_s = started + seconds
        if not is_busy:
            self.hold(life)
            self.call_in(self.world, seconds, self._end_stall, life)

    def _end_stall(self, life: Life) -> None:
        left_s = life.busy_until_s - self.now_s
        if left_s > 0:
            self.call_in(self.world, left_s, self._end_stall, life)
        else:
            self.release(life)

    def _list(self, life: Life) -> None:
        if not life.is_listed:
            life.is_listed = True
            self._active.append(life)

    def _unlist(self, life: Life) -> None:
        if life.is_listed:
            life.is_listed = False
            self._active.remove(life)

    def call_in(self, life: Life, delay_s: float, callback: Callable[..., object], *args: Any) -> Handle:
        """Call in another life: what arrives there from outside."""
        handle = Handle(life, callback, args, life.context)
        self._put_timer(self.now_s + delay_s, handle)
        return handle

    def let_go_of_done_tasks(self) -> None:
        """Forget tasks that are done, so that an exception that nobody took is told."""
        for life in self.lives:
            if not life.is_dead:
                life.tasks = [task for task in life.tasks if not task.done()]

    def note(self, data: bytes | bytearray | memoryview) -> None:
        """Take data that went through a port into the digest."""
        self.digest = (self.digest * 31 + crc32(data)) & _DIGEST_MASK

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self.now_s

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[T]":
        context = copy_context() if context is None else context
        life = context.get(LIFE, self.world)
        assert life is not None
        self._task_count = number = self._task_count + 1
        if life.is_dead:
            # What a dead process would do must not begin.
            coro.close()
            coro = cast("Coroutine[Any, Any, T]", _never())
        task = SimulatedTask(
            coro, number=number, life=life, loop=self, name=name or f"{life.name}-{number}", context=context
        )
        tasks = life.tasks
        tasks.append(task)
        if len(tasks) > 256 and not number % 64:
            life.tasks = [each for each in tasks if not each.done()]
        return task

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        if context is None:
            context = copy_context()
        life = context.get(LIFE) or self.world
        handle = Handle(life, callback, args, context)
        if not life.is_dead:
            life.ready.append(handle)
            if not life.is_listed and not life.holds:
                life.is_listed = True
                self._active.append(life)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        if context is None:
            context = copy_context()
        handle = Handle(context.get(LIFE) or self.world, callback, args, context)
        self._put_timer(when, handle)
        return handle

    def _put_timer(self, when_s: float, handle: Handle) -> None:
        handle.when_s = when_s
        self._timer_count += 1
        if not handle.life.is_dead:
            heapq.heappush(self._timers, (when_s, self._draw(), self._timer_count, handle))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        task = context.get("task") or context.get("future")
        life = task.life if isinstance(task, SimulatedTask) else self._current
        if not self._is_closed and not life.is_dead:
            self.on_failure(life, str(context.get("message", "the event loop")), context.get("exception"))

    def run_until_complete(self, future: Any) -> Any:
        """Run until the coroutine, which belongs to the world, is done."""
        assert not self._is_running
        assert not self._is_closed
        hooks = sys.get_asyncgen_hooks()
        # The garbage collector must not close generators of the dead: it would run what they wait in, when it likes.
        sys.set_asyncgen_hooks(finalizer=_ignore)
        asyncio._set_running_loop(self)  # noqa: SLF001 - what every loop calls
        self._is_running = True
        try:
            task = self.create_task(future, name="the run", context=self.world.context.copy())
            while not task.done():
                self._turn()
            return task.result()
        finally:
            self._is_running = False
            asyncio._set_running_loop(None)  # noqa: SLF001
            sys.set_asyncgen_hooks(*hooks)

    def close(self) -> None:
        """End every life, and let go of what the dead left behind: only now may a `finally` of theirs run."""
        self._is_closed = True
        hook, sys.unraisablehook = sys.unraisablehook, _ignore
        asyncio._set_running_loop(self)  # noqa: SLF001
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for life in self.lives:
                    self.end(life)
                self._timers.clear()
                # What ends now may begin something; that is closed in a further round.
                while any(life.tasks for life in self.lives):
                    for life in self.lives:
                        tasks, life.tasks = life.tasks, []
                        for task in tasks:
                            _close_task(task)
                    del tasks
                    gc.collect()
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001
            sys.unraisablehook = hook

    # The turn.

    def _turn(self) -> None:
        """Run one handle, or let time pass."""
        active = self._active
        count = len(active)
        if not count:
            self._jump()
            return
        index = int(self._draw() * count) if count > 1 else 0
        life = active[index]
        ready = life.ready
        if self._shuffle and len(ready) > 1 and self._draw() < self._shuffle:
            ready.rotate(-int(self._draw() * len(ready)))
        handle = ready.popleft()
        if not ready:
            life.is_listed = False
            active[index] = active[-1]
            active.pop()
        if handle.is_cancelled:
            return
        self.steps += 1
        self.digest = (self.digest * 31 + life.number * 7 + count) & _DIGEST_MASK
        if self.trace is not None:
            self.trace(f"{self.now_s:.6f} {life.name}: {handle.label()}")
        self._steps_now += 1
        if self._steps_now > _MOST_STEPS_AT_ONCE:
            raise TimeStandsStill(f"{life.name}: {handle.label()} at {self.now_s:.6f} s")
        self._current = life
        try:
            handle.context.run(handle.callback, *handle.args)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the process's end
            pass_on(error)
            if not life.is_dead:
                self.on_failure(life, f"callback {handle.label()}", error)

    def _jump(self) -> None:
        """Move the clock to the next timer and make ready what is due then."""
        timers = self._timers
        while timers and (timers[0][3].is_cancelled or timers[0][3].life.is_dead):
            heapq.heappop(timers)
        if not timers:
            raise NothingHappens(f"at {self.now_s:.3f} s")
        when_s = timers[0][0]
        if when_s > self.now_s:
            self.now_s = when_s
            self._steps_now = 0
            self.digest = (self.digest * 31 + int(when_s * 1_000_000)) & _DIGEST_MASK
        while timers and timers[0][0] <= when_s:
            handle = heapq.heappop(timers)[3]
            life = handle.life
            if handle.is_cancelled or life.is_dead:
                continue
            life.ready.append(handle)
            if not life.is_listed and not life.holds:
                life.is_listed = True
                self._active.append(life)


def pass_on(error: BaseException | None) -> None:
    """Raise what is no failure of a simulated process but meant for whoever runs the simulation.

    KeyboardInterrupt, or a test runner's word that the time is over: it strikes in the middle of some process's code,
    and taken for that process's end it would pass for a bug that was found.
    """
    if error is not None and not isinstance(error, Exception | asyncio.CancelledError | GeneratorExit | Crashed):
        raise error


def _close_task(task: "asyncio.Task[Any]") -> None:
    if not task.done():
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
        with contextlib.suppress(BaseException):
            cast("Coroutine[Any, Any, Any]", task.get_coro()).close()


def _ignore(_: object) -> None:
    """Take what the dead raise, or leave."""


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


def _raise_failure(life: Life, what: str, error: BaseException | None) -> None:
    raise AssertionError(f"{life.name}: {what}: {error!r}") from error
