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
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import groupby
from typing import Final, cast

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, ControllerEpoch
from barnabas.runtime.clock import Clock
from barnabas.runtime.tasks import Supervisor
from controller import joint_writes
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
    Confirmed,
    Refused,
    Reply,
    Settled,
    Stimulus,
    Unknown,
    WriteReply,
)
from controller.inbox import About, Inbox, Mark, NotController
from controller.office import Settings
from controller.state import Term, TopicRead
from controller.tally import Tally, tally
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import OutcomeUnknown, SessionLost, WriteRefused, ZooKeeperError
from zk_schema.port import DataChanged, Expired, Resync, ZooKeeper, ZooKeeperEvent

log = logging.getLogger(__name__)

_RESIGN_TIMEOUT_MS: Final = 1_000
_AFTER_EVERYTHING: Final = (
    About.REASSIGNMENTS,
    About.PREFERRED_ELECTIONS,
    About.LOG_DIRECTORIES,
    About.ISR_CHANGES,
    About.CONFIG_CHANGES,
)
"""What waits in ZooKeeper until a controller has done it."""
_LOGGED_WRITES: Final = 20
"""A batch of more writes is logged as a number; each stands in the log of level DEBUG."""


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
        self._inbox = Inbox(term.controller_id)
        self._task = supervisor.spawn(self._run(), name=f"controller epoch {term.epoch}")

    def close(self) -> None:
        """End the term at once."""
        self.is_over = True
        self._task.cancel()
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        self._inbox.close()

    async def ask(self, question: Inquiry[object]) -> object:
        """What the core answers. Raises NotController when the term ends before."""
        return await self._inbox.ask(question)

    def change_settings(self, settings: Settings, *, allows_unclean: bool) -> None:
        """Decide by these from now on; partitions may get a leader that they could not have before."""
        self._core.change_settings(settings)
        if allows_unclean:
            self._inbox.on_unclean_allowed()

    def tally(self) -> Tally:
        return tally(self._core.state)

    def on_event(self, event: ZooKeeperEvent) -> None:
        """Mark what an event of ZooKeeper is about."""
        self._inbox.on_event(event)

    async def _run(self) -> None:
        try:
            while True:
                waiting = await self._inbox.take()
                if isinstance(waiting, Mark):
                    await self._look_at(waiting)
                else:
                    await self._handle(waiting)
        except SessionLost:
            self._finish("its ZooKeeper session is lost")
        except _TermOver as reason:
            self._finish(str(reason))

    def _finish(self, reason: str) -> None:
        log.warning("controller %d epoch %d steps down: %s", self.term.controller_id, self.term.epoch, reason)
        self.close()
        self._on_over()

    async def _look_at(self, mark: Mark) -> None:
        reader, known = self._reader, self._core.state.topics
        match mark.about:
            case About.EVERYTHING:
                await self._handle(await reader.everything())
                self._inbox.put(*_AFTER_EVERYTHING)
            case About.BROKERS:
                await self._handle(await reader.brokers())
            case About.TOPICS:
                await self._handle(await reader.topics(known=known))
            case About.TOPIC:
                if mark.name in known:
                    await self._handle(await reader.topic(mark.name))
            case About.DELETIONS:
                deletions = await reader.deletions()
                if any(name not in known for name in deletions.names):
                    # The topic may be so new that its creation was not looked at yet.
                    await self._handle(await reader.topics(known=known))
                await self._handle(deletions)
            case About.REASSIGNMENTS:
                reassignments = await reader.reassignments()
                if reassignments is not None:
                    await self._handle(reassignments)
            case About.PREFERRED_ELECTIONS:
                elections = await reader.preferred_elections()
                if elections is not None:
                    await self._handle(elections)
            case About.LOG_DIRECTORIES:
                await self._handle(await reader.log_directory_events())
            case About.ISR_CHANGES:
                await self._handle(await reader.isr_changes())
            case About.CONFIG_CHANGES:
                await self._handle(await reader.config_changes())

    async def _handle(self, stimulus: Stimulus) -> None:
        actions = self._core.handle(stimulus, self._clock.monotonic_ms())
        while self._core.is_busy:
            settled = Settled(await self._perform(actions))
            # Other work of the broker has its turn between two batches.
            await asyncio.sleep(0)
            actions = self._core.handle(settled, self._clock.monotonic_ms())
        await self._perform(actions)

    async def _perform(self, actions: list[Action]) -> tuple[Reply, ...]:
        questions: list[Awaitable[Reply | list[WriteReply]]] = []
        for is_write, run in groupby(actions, lambda action: isinstance(action, Write)):
            if is_write:
                writes = cast("list[Write]", list(run))
                self._log_writes(writes)
                questions += [self._write_together(group) for group in joint_writes.groups(writes)]
            else:
                questions += self._perform_others(run)
        answers = await asyncio.gather(*questions, return_exceptions=True)
        replies: list[Reply] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            # The only lists are those of writes.
            replies += answer if isinstance(answer, list) else (answer,)
        return tuple(replies)

    def _perform_others(self, actions: Iterable[Action]) -> list[Awaitable[Reply]]:
        """Do what can be done at once; the questions are asked when they are awaited."""
        questions: list[Awaitable[Reply]] = []
        for action in actions:
            match action:
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
                    self._inbox.answer(action)
                case SetTimer():
                    self._inbox.set_timer(action)
                case Report():
                    log.log(logging.ERROR if action.severe else logging.INFO, "%s %s", self, action.message)
                case StepDown():
                    raise _TermOver(action.reason)
        return questions

    async def _topic(self, name: str) -> TopicRead | None:
        return (await self._reader.topic(name)).read

    def _reach(self, action: Connect | Disconnect | Send) -> None:
        broker = action.broker
        match action:
            case Connect():
                assert broker not in self._channels, f"broker {broker} has a channel"

                def on_answer(command: Command, result: CommandResult) -> None:
                    self._inbox.on_answer(broker, command, result)

                self._channels[broker] = self._open_channel(broker, action.endpoint, on_answer)
            case Disconnect():
                self._channels.pop(broker).close()
            case Send():
                self._channels[broker].send(action.command)

    async def _write_together(self, group: Sequence[Write], *, is_part: bool = False) -> list[WriteReply]:
        """One multi for all; their replies. A refusal costs up to three more, one of these a multi a write."""
        try:
            results = await self._zk.write(*joint_writes.joined(group))
        except OutcomeUnknown:
            return [Unknown()] * len(group)
        except WriteRefused as error:
            if len(group) == 1 or error.index == 0:
                return [Refused(error)] * len(group)
            parts = [[write] for write in group] if is_part else joint_writes.apart(group, error.index)
        else:
            return [Confirmed(each) for each in joint_writes.parted(group, results)]
        again = await asyncio.gather(*(self._write_together(part, is_part=True) for part in parts))
        return [reply for replies in again for reply in replies]

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

    def tally(self) -> Tally:
        """What the controller counts of the cluster; all 0 out of office."""
        return self._driver.tally() if self._driver is not None and self.is_active else Tally()

    async def ask(self, question: Inquiry[AnswerT]) -> AnswerT:
        """The answer of the controller, if this broker is in office.

        Raises:
            NotController: it is not, or was not until the end; what was asked may or may not be done then.
        """
        if self._driver is None:
            raise NotController(self._broker_id)
        return cast("AnswerT", await self._driver.ask(cast("Inquiry[object]", question)))

    def change_settings(self, settings: Settings) -> None:
        """Decide by these from now on, in office or when it comes to that."""
        before, self._settings = self._settings, settings
        if self._driver is not None:
            allowed = settings.unclean_leader_election_enable and not before.unclean_leader_election_enable
            self._driver.change_settings(settings, allows_unclean=allowed)

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
