"""The controller of a broker: stands for election, and while in office performs what the core decides.

`Controller` lives as long as the broker and knows who holds the office. `Driver` lives for one term: its task takes
one stimulus at a time, reads what it is about from ZooKeeper, hands it to the core, and performs the batches of
actions until the core is done. All other entries (ZooKeeper's events, answers of brokers) only leave a mark: what is to
be looked at again stands in the inbox once, however often it changed.

A term ends when the session expires, when /controller is not ours any more, when a write hits the fence, or when the
core says so. Nothing of a term that ended acts on: its task is cancelled and its channels are closed at once.
"""

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, cast

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, ControllerEpoch
from barnabas.runtime.clock import Clock
from barnabas.runtime.tasks import Supervisor
from controller.actions import (
    Action,
    Answer,
    Connect,
    Disconnect,
    ReadFeatures,
    ReadState,
    ReadTopic,
    ReadTopicConfig,
    ReadTree,
    Report,
    Send,
    SetTimer,
    StepDown,
    Timer,
    Write,
)
from controller.campaign import NO_CONTROLLER, Campaign
from controller.cluster_reader import ClusterReader
from controller.commands import (
    AlterPartition,
    AlterPartitionResult,
    AnswerT,
    Command,
    CommandResult,
    ControlChannel,
    ControlledShutdown,
    ControlledShutdownResult,
    Inquiry,
    OpenChannel,
)
from controller.core import Core
from controller.events import (
    Asked,
    CommandAnswered,
    Confirmed,
    Refused,
    Reply,
    Settled,
    Stimulus,
    TimerFired,
    Unknown,
    WriteReply,
)
from controller.office import Settings
from controller.state import Term, TopicRead
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import OutcomeUnknown, SessionLost, WriteRefused, ZooKeeperError
from zk_schema.port import ChildrenChanged, DataChanged, Disconnected, Expired, Resync, ZooKeeper, ZooKeeperEvent

log = logging.getLogger(__name__)

MAX_QUESTIONS: Final = 10_000
_RESIGN_TIMEOUT_MS: Final = 1_000
_LOGGED_WRITES: Final = 20
"""A batch of more writes is logged as a number; each stands in the log of level DEBUG."""


class _About(Enum):
    """What is to be read again."""

    EVERYTHING = 1
    BROKERS = 2
    TOPICS = 3
    TOPIC = 4
    DELETIONS = 5
    REASSIGNMENTS = 6
    PREFERRED_ELECTIONS = 7


@dataclass(frozen=True, slots=True)
class _Mark:
    about: _About
    name: str = ""


class NotController(Exception):
    """This broker is not in office, or left it before it answered; its text names the broker."""


class _TermOver(Exception):
    """The core stepped down."""


class Driver:
    """One term in office."""

    def __init__(
        self,
        term: Term,
        *,
        zk: ZooKeeper,
        clock: Clock,
        supervisor: Supervisor,
        open_channel: OpenChannel,
        settings: Settings,
        on_over: Callable[[], None],
    ) -> None:
        self.term = term
        self.is_over = False
        self._zk = zk
        self._clock = clock
        self._open_channel = open_channel
        self._on_over = on_over
        self._core = Core(term, settings)
        self._reader = ClusterReader(zk)
        self._channels: dict[BrokerId, ControlChannel] = {}
        self._marks: dict[_Mark, None] = {_Mark(_About.EVERYTHING): None}
        self._answers: deque[CommandAnswered] = deque()
        self._asked: deque[Asked] = deque()
        self._open_questions: dict[int, asyncio.Future[object]] = {}
        self._tokens = itertools.count(1)
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._fired: dict[Timer, None] = {}
        self._wake = asyncio.Event()
        self._task = supervisor.spawn(self._run(), name=f"controller epoch {term.epoch}")

    def close(self) -> None:
        """End the term at once."""
        self.is_over = True
        self._task.cancel()
        self._cancel_timers(*self._timers)
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        for answer in self._open_questions.values():
            if not answer.done():
                answer.set_exception(NotController(self.term.controller_id))
        self._open_questions.clear()

    async def ask(self, question: Inquiry[object]) -> object:
        """Put a question into the queue; it has its turn after what ZooKeeper and the brokers told.

        Raises:
            NotController: the term ended, or too many questions wait. What was asked may or may not be done.
        """
        if self.is_over or len(self._open_questions) >= MAX_QUESTIONS:
            raise NotController(self.term.controller_id)
        token = next(self._tokens)
        answer = self._open_questions[token] = asyncio.get_running_loop().create_future()
        self._asked.append(Asked(token, question))
        self._wake.set()
        try:
            return await answer
        finally:
            self._open_questions.pop(token, None)

    def _answer(self, action: Answer) -> None:
        # Who asked may have gone.
        answer = self._open_questions.get(action.token)
        if answer is not None and not answer.done():
            answer.set_result(action.answer)

    def on_event(self, event: ZooKeeperEvent) -> None:
        """Mark what an event of ZooKeeper is about."""
        match event:
            case Resync():
                self._marks = {_Mark(_About.EVERYTHING): None}
                self._wake.set()
            case ChildrenChanged(paths.BROKER_IDS):
                self._put(_Mark(_About.BROKERS))
            case ChildrenChanged(paths.BROKER_TOPICS):
                self._put(_Mark(_About.TOPICS))
            case ChildrenChanged(paths.DELETE_TOPICS):
                self._put(_Mark(_About.DELETIONS))
            case DataChanged(paths.REASSIGN_PARTITIONS):
                self._put(_Mark(_About.REASSIGNMENTS))
            case DataChanged(paths.PREFERRED_REPLICA_ELECTION):
                self._put(_Mark(_About.PREFERRED_ELECTIONS))
            case DataChanged(path) if path.startswith(f"{paths.BROKER_IDS}/"):
                self._put(_Mark(_About.BROKERS))
            case DataChanged(path) if path.startswith(f"{paths.BROKER_TOPICS}/"):
                self._put(_Mark(_About.TOPIC, path.removeprefix(f"{paths.BROKER_TOPICS}/")))
            case ChildrenChanged() | DataChanged() | Disconnected() | Expired():
                pass

    def _put(self, mark: _Mark) -> None:
        # Whatever is marked while everything is to be read is read then.
        if _Mark(_About.EVERYTHING) not in self._marks:
            self._marks[mark] = None
            self._wake.set()

    def _on_answer(self, broker: BrokerId, command: Command, result: CommandResult) -> None:
        self._answers.append(CommandAnswered(broker, command.broker_epoch, command, result))
        self._wake.set()

    async def _run(self) -> None:
        try:
            while True:
                while not self._marks and not self._answers and not self._asked and not self._fired:
                    self._wake.clear()
                    await self._wake.wait()
                if self._marks:
                    mark = next(iter(self._marks))
                    del self._marks[mark]
                    await self._look_at(mark)
                elif self._answers:
                    await self._handle(self._answers.popleft())
                elif self._asked:
                    await self._handle(self._asked.popleft())
                else:
                    timer = next(iter(self._fired))
                    del self._fired[timer]
                    await self._handle(TimerFired(timer))
        except SessionLost:
            self._finish("its ZooKeeper session is lost")
        except _TermOver as reason:
            self._finish(str(reason))

    def _finish(self, reason: str) -> None:
        log.warning("controller %d epoch %d steps down: %s", self.term.controller_id, self.term.epoch, reason)
        self.close()
        self._on_over()

    async def _look_at(self, mark: _Mark) -> None:
        reader, known = self._reader, self._core.state.topics
        match mark.about:
            case _About.EVERYTHING:
                await self._handle(await reader.everything())
                self._put(_Mark(_About.REASSIGNMENTS))
                self._put(_Mark(_About.PREFERRED_ELECTIONS))
            case _About.BROKERS:
                await self._handle(await reader.brokers())
            case _About.TOPICS:
                await self._handle(await reader.topics(known=known))
            case _About.TOPIC:
                if mark.name in known:
                    await self._handle(await reader.topic(mark.name))
            case _About.DELETIONS:
                deletions = await reader.deletions()
                if any(name not in known for name in deletions.names):
                    # The topic may be so new that its creation was not looked at yet.
                    await self._handle(await reader.topics(known=known))
                await self._handle(deletions)
            case _About.REASSIGNMENTS:
                reassignments = await reader.reassignments()
                if reassignments is not None:
                    await self._handle(reassignments)
            case _About.PREFERRED_ELECTIONS:
                elections = await reader.preferred_elections()
                if elections is not None:
                    await self._handle(elections)

    async def _handle(self, stimulus: Stimulus) -> None:
        actions = self._core.handle(stimulus, self._clock.monotonic_ms())
        while self._core.is_busy:
            settled = Settled(await self._perform(actions))
            # Other work of the broker has its turn between two batches.
            await asyncio.sleep(0)
            actions = self._core.handle(settled, self._clock.monotonic_ms())
        await self._perform(actions)

    async def _perform(self, actions: list[Action]) -> tuple[Reply, ...]:
        questions: list[Awaitable[Reply]] = []
        writes: list[Write] = []
        for action in actions:
            match action:
                case Write():
                    writes.append(action)
                    questions.append(self._write(action))
                case ReadState():
                    questions.append(self._reader.state(action.partition))
                case ReadTopic():
                    questions.append(self._topic(action.name))
                case ReadTopicConfig():
                    questions.append(self._reader.topic_config(action.name))
                case ReadFeatures():
                    questions.append(self._reader.features())
                case ReadTree():
                    questions.append(self._reader.tree(action.path))
                case Connect() | Disconnect() | Send():
                    self._reach(action)
                case Answer():
                    self._answer(action)
                case SetTimer():
                    self._set_timer(action)
                case Report():
                    log.log(logging.ERROR if action.severe else logging.INFO, "%s %s", self, action.message)
                case StepDown():
                    raise _TermOver(action.reason)
        self._log_writes(writes)
        replies = await asyncio.gather(*questions, return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        return tuple(reply for reply in replies if not isinstance(reply, BaseException))

    async def _topic(self, name: str) -> TopicRead | None:
        return (await self._reader.topic(name)).read

    def _set_timer(self, action: SetTimer) -> None:
        def fire() -> None:
            self._fired[action.timer] = None
            self._wake.set()

        self._cancel_timers(action.timer)
        self._timers[action.timer] = asyncio.get_running_loop().call_later(action.delay_ms / 1000, fire)

    def _cancel_timers(self, *timers: Timer) -> None:
        for timer in timers:
            if timer in self._timers:
                self._timers.pop(timer).cancel()

    def _reach(self, action: Connect | Disconnect | Send) -> None:
        broker = action.broker
        match action:
            case Connect():
                assert broker not in self._channels, f"broker {broker} has a channel"

                def on_answer(command: Command, result: CommandResult) -> None:
                    self._on_answer(broker, command, result)

                self._channels[broker] = self._open_channel(broker, action.endpoint, on_answer)
            case Disconnect():
                self._channels.pop(broker).close()
            case Send():
                self._channels[broker].send(action.command)

    async def _write(self, action: Write) -> WriteReply:
        try:
            return Confirmed(tuple(await self._zk.write(*action.operations)))
        except WriteRefused as error:
            return Refused(error)
        except OutcomeUnknown:
            return Unknown()

    def _log_writes(self, writes: list[Write]) -> None:
        level = logging.INFO if len(writes) <= _LOGGED_WRITES else logging.DEBUG
        if log.isEnabledFor(level):
            for write in writes:
                log.log(level, "%s %s", self, write.reason)

    def __str__(self) -> str:
        return f"controller {self.term.controller_id} epoch {self.term.epoch}:"


class Controller:
    """A broker's part in being, or knowing, the controller."""

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        zk: ZooKeeper,
        clock: Clock,
        supervisor: Supervisor,
        open_channel: OpenChannel,
        settings: Settings | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._zk = zk
        self._clock = clock
        self._supervisor = supervisor
        self._open_channel = open_channel
        self._settings = settings or Settings()
        self._campaign = Campaign(broker_id, zk, clock)
        self._driver: Driver | None = None
        self._active_controller_id = NO_CONTROLLER
        self._wake = asyncio.Event()
        self._has_looked = asyncio.Event()
        self._unlisten: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_active(self) -> bool:
        """Whether this broker holds the office."""
        return self._driver is not None and not self._driver.is_over

    @property
    def controller_epoch(self) -> ControllerEpoch | None:
        """The epoch of this broker's term, None while it is not in office."""
        return self._driver.term.epoch if self._driver is not None and self.is_active else None

    @property
    def active_controller_id(self) -> BrokerId:
        """Who holds the office as far as this broker knows, -1 while it knows of nobody."""
        return self._active_controller_id

    async def ask(self, question: Inquiry[AnswerT]) -> AnswerT:
        """The answer of the controller, if this broker is in office.

        Raises:
            NotController: it is not, or was not until the end; what was asked may or may not be done then.
        """
        if self._driver is None:
            raise NotController(self._broker_id)
        return cast("AnswerT", await self._driver.ask(cast("Inquiry[object]", question)))

    async def alter_partition(self, request: AlterPartition) -> AlterPartitionResult:
        """Another broker, or this one, asks as the leader of partitions."""
        try:
            return await self.ask(request)
        except NotController:
            return AlterPartitionResult(ErrorCode.NOT_CONTROLLER)

    async def controlled_shutdown(self, request: ControlledShutdown) -> ControlledShutdownResult:
        """A broker wants to stop."""
        try:
            return await self.ask(request)
        except NotController:
            return ControlledShutdownResult(ErrorCode.NOT_CONTROLLER)

    async def start(self) -> None:
        """Stand for election; returns when the office is won or somebody else is known to hold it."""
        self._unlisten = self._zk.listen(self._on_event)
        self._wake.set()
        self._task = self._supervisor.spawn(self._run(), name="controller campaign")
        await self._has_looked.wait()

    async def stop(self) -> None:
        """Leave office and stand no more; another broker can take over at once."""
        if self._unlisten is not None:
            self._unlisten()
        if self._task is not None:
            self._task.cancel()
        term = self._driver.term if self._driver is not None and self.is_active else None
        self._end_term()
        if term is not None:
            # While the connection is away the write would wait; the end of the session does the same.
            with contextlib.suppress(ZooKeeperError, TimeoutError):
                async with asyncio.timeout(_RESIGN_TIMEOUT_MS / 1000):
                    await self._campaign.resign(term)

    def _on_event(self, event: ZooKeeperEvent) -> None:
        if isinstance(event, Expired):
            self._end_term()
        elif isinstance(event, Resync) or event == DataChanged(paths.CONTROLLER):
            self._wake.set()
        if self._driver is not None:
            self._driver.on_event(event)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._attend()
            except SessionLost:
                # The next session announces itself with a Resync.
                continue
            except OutcomeUnknown:
                self._wake.set()
                continue
            except InvalidPayload as error:
                log.error("broker %d does not stand for election: %s", self._broker_id, error)
            if not self._wake.is_set():
                self._has_looked.set()

    async def _attend(self) -> None:
        """Bring this broker's part into line with what stands in /controller."""
        holder = await self._campaign.look()
        if self._driver is not None and (self._driver.is_over or holder is None or not holder.is_us):
            self._end_term()
        if holder is None:
            await self._stand()
        elif holder.is_us and self._driver is None:
            await self._campaign.vacate()
            self._wake.set()
        else:
            self._active_controller_id = holder.broker_id

    async def _stand(self) -> None:
        session_id = self._zk.session_id
        self._active_controller_id = NO_CONTROLLER
        term = await self._campaign.stand()
        if term is None or self._zk.session_id != session_id:
            self._wake.set()
            return
        log.info("controller %d epoch %d: elected", term.controller_id, term.epoch)
        await self._campaign.keep_features(term)
        self._active_controller_id = self._broker_id
        self._driver = Driver(
            term,
            zk=self._zk,
            clock=self._clock,
            supervisor=self._supervisor,
            open_channel=self._open_channel,
            settings=self._settings,
            on_over=self._wake.set,
        )

    def _end_term(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None
        self._active_controller_id = NO_CONTROLLER
