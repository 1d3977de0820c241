"""The controller's decisions: events in, actions out.  [P]

One event is handled at a time. `handle` returns the first batch of actions; while `is_busy`, the driver performs the
batch and hands back a `Settled` with the replies to its questions (none is also an answer), and gets the next batch.
Nothing here waits, reads a clock or touches the world, so a term in office can be replayed from its events.

A failed check of /controller_epoch ends the term whatever was under way: the last batch is a single `StepDown`, and the
core must not be used again.
"""

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from controller import brokers, deletion, last_replica, leader_requests, notifications, replica_moves
from controller.actions import Action, Report, StepDown, Timer
from controller.commands import CommandResult, LeaderAndIsr, ReportLogEnds, StopReplica
from controller.events import (
    Asked,
    BrokersRead,
    ClusterRead,
    CommandAnswered,
    ConfigChangesRead,
    DeletionsRead,
    Event,
    IsrChangesRead,
    LogDirectoryEventsRead,
    PreferredElectionsRead,
    ReassignmentsRead,
    Refused,
    Reply,
    Settled,
    Stimulus,
    TimerFired,
    TopicNamesRead,
    TopicZnodeRead,
    UncleanElectionsAllowed,
)
from controller.inquiries import on_asked
from controller.office import BATCH_PARTITIONS, LeaveOffice, Office, Procedure, Settings
from controller.partitions import check_state, settle
from controller.state import ClusterState, StateRead, Term, TopicRead
from controller.topic_znodes import acceptable, on_names, on_znode

# A broker that knows the leader epoch already changes nothing and says so; after a takeover that is the rule.
_EXPECTED: Final = frozenset({ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH})


class Core:
    """One term in office."""

    def __init__(self, term: Term, settings: Settings) -> None:
        self._office = Office.open(term, settings)
        self._procedure: Procedure[None] | None = None
        self._event_name = ""
        self._started_ms = 0
        self._has_loaded = False

    @property
    def state(self) -> ClusterState:
        return self._office.state

    def change_settings(self, settings: Settings) -> None:
        """Decide by these from now on."""
        self._office.settings = settings

    @property
    def is_busy(self) -> bool:
        """Whether the event under way wants a `Settled` before another event may come."""
        return self._procedure is not None

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        """Take an event; the actions are to be performed in their order."""
        try:
            if isinstance(event, Settled):
                assert self._procedure is not None, "replies without a question"
                _check_fence(event.replies)
                return self._procedure.send(event.replies)
            assert self._procedure is None, "an event while another is under way"
            self._procedure = self._begin(event)
            self._event_name, self._started_ms = type(event).__name__, now_ms
            self._office.changes = 0
            return next(self._procedure)
        except StopIteration:
            self._procedure = None
            return self._conclude(now_ms)
        except LeaveOffice as reason:
            self._procedure = None
            return [StepDown(str(reason))]

    def _conclude(self, now_ms: int) -> list[Action]:
        actions = self._office.flush()
        if self._office.changes:
            took_ms = now_ms - self._started_ms
            actions.append(Report(f"{self._event_name}: {self._office.changes} leaderships written in {took_ms} ms"))
        return actions

    def _begin(self, event: Stimulus) -> Procedure[None]:
        office = self._office
        match event:
            case ClusterRead() if not self._has_loaded:
                self._has_loaded = True
                return take_over(office, event)
            case ClusterRead():
                return catch_up(office, event)
            case BrokersRead():
                return brokers.on_brokers(office, event.brokers)
            case TopicNamesRead():
                return on_names(office, event.names, event.unknown)
            case TopicZnodeRead():
                return on_znode(office, event.name, event.read)
            case DeletionsRead():
                return deletion.on_requests(office, event.names)
            case ReassignmentsRead():
                return replica_moves.on_znode(office, event)
            case PreferredElectionsRead():
                return leader_requests.on_znode(office, event)
            case TimerFired():
                return _on_timer(office, event)
            case CommandAnswered():
                return on_answer(office, event)
            case LogDirectoryEventsRead():
                return notifications.on_log_directories(office, event)
            case IsrChangesRead():
                return notifications.on_isr_changes(office, event)
            case ConfigChangesRead():
                return notifications.on_config_changes(office, event)
            case UncleanElectionsAllowed():
                return notifications.on_unclean_allowed(office)
            case Asked():
                return on_asked(office, event)
            case _:
                assert_never(event)


def _check_fence(replies: Iterable[Reply]) -> None:
    """Every write begins with the check of /controller_epoch; a refusal there means that there is a later epoch."""
    for reply in replies:
        if isinstance(reply, Refused) and reply.error.index == 0:
            raise LeaveOffice("another controller was elected: /controller_epoch has moved")


def take_over(office: Office, read: ClusterRead) -> Procedure[None]:
    """Learn the cluster, make every broker known to every broker, and bring all partitions to their leadership."""
    yield from brokers.welcome(office, read.brokers)
    yield from _load(office, read.topics, read.states)
    now, later = _sort_deletions(office, read.deletions)
    office.state.deletions.update(now)
    office.state.postponed_deletions.update(later)
    every = list(office.state.all_partitions())
    yield from settle(office, every, tell=read.brokers.keys(), reason="takeover")
    yield from brokers.end_welcome(office, read.brokers)
    yield from replica_moves.resume(office)
    for name in list(office.state.deletions):
        yield from deletion.start(office, name)
    yield from deletion.request(office, read.deletions)
    yield from leader_requests.start_balance(office)


def _sort_deletions(office: Office, names: Iterable[str]) -> tuple[dict[str, None], dict[str, None]]:
    """Those to begin with, and those that wait for a reassignment; the rest is void."""
    legal = [name for name in names if office.settings.delete_topic_enable and name in office.state.topics]
    later = {name: None for name in legal if deletion.is_moving(office, name)}
    return {name: None for name in legal if name not in later}, later


def _on_timer(office: Office, event: TimerFired) -> Procedure[None]:
    match event.timer:
        case Timer.LEADER_BALANCE:
            return leader_requests.on_balance(office)


def _load(
    office: Office, topics: Mapping[str, TopicRead], states: Mapping[TopicPartition, StateRead]
) -> Procedure[None]:
    reports: list[Action] = []
    loaded = 0
    for name, read in topics.items():
        accepted, found = acceptable(name, read)
        reports += found
        for at in office.state.apply_topic(name, accepted):
            loaded += 1
            if at in states:
                check_state(office, at, states[at])
                office.state.apply_state(at, states[at])
        if loaded >= BATCH_PARTITIONS:
            yield reports
            reports, loaded = [], 0
    yield reports


def catch_up(office: Office, read: ClusterRead) -> Procedure[None]:
    """After a lost connection: find what changed meanwhile, and what was written without our knowing."""
    state = office.state
    moved = []
    for at, state_read in read.states.items():
        partition = state.partition(at)
        if partition is None or (partition.version, partition.leadership) == (
            state_read.version,
            state_read.leadership,
        ):
            continue
        check_state(office, at, state_read)
        if at.topic not in state.deletions:
            state.apply_state(at, state_read)
            moved.append(at)
    yield from brokers.on_brokers(office, read.brokers)
    unknown = {name: topic for name, topic in read.topics.items() if name not in state.topics}
    yield from on_names(office, frozenset(read.topics), unknown)
    for name, topic in read.topics.items():
        if state.topics[name].version != topic.version:
            yield from on_znode(office, name, topic)
    yield from deletion.on_requests(office, read.deletions)
    yield from settle(office, moved, tell=state.brokers.keys(), reason="reconnected")
    yield from replica_moves.on_isr_changed(office, list(state.moving))


def on_answer(office: Office, event: CommandAnswered) -> Procedure[None]:
    """A broker answered; what it says counts only if it is still the broker that was asked."""
    registered = office.state.brokers.get(event.broker)
    if registered is None or registered.epoch != event.broker_epoch:
        return
    if event.result.error_code is ErrorCode.STALE_CONTROLLER_EPOCH:
        raise LeaveOffice(f"broker {event.broker} obeys a later controller")
    if event.result.error_code is ErrorCode.STALE_BROKER_EPOCH:
        yield [Report(f"broker {event.broker} registered anew, which is not known here yet")]
        return
    if event.result.error_code is not ErrorCode.NONE:
        told = f"broker {event.broker} refused {type(event.command).__name__}: {event.result.error_code.name}"
        yield [Report(told, severe=True)]
    if isinstance(event.command, StopReplica):
        yield from deletion.on_answer(office, event.broker, event.command, event.result)
    elif isinstance(event.command, LeaderAndIsr):
        yield from _on_partition_errors(office, event.broker, event.result)
    elif isinstance(event.command, ReportLogEnds):
        decided = yield from last_replica.on_answer(office, event.broker, event.command, event.result)
        yield from settle(office, decided, tell=(), reason="every replica told where its log ends")


def _on_partition_errors(office: Office, broker: BrokerId, result: CommandResult) -> Procedure[None]:
    """A replica whose log directory is offline is as good as gone, until its broker starts anew."""
    failed = []
    for at, error in result.partition_errors.items():
        if error is ErrorCode.KAFKA_STORAGE_ERROR:
            if office.state.partition(at) is not None and office.state.is_replica_live(at, broker):
                failed.append(at)
        elif error not in _EXPECTED:
            yield [Report(f"broker {broker} did not take {at}: {error.name}", severe=True)]
    if not failed:
        return
    yield [Report(f"broker {broker} has no disk for {', '.join(map(str, failed))}", severe=True)]
    for at in failed:
        office.state.apply_replica_failed(at, broker)
    yield from settle(office, failed, tell=(), reason=f"directory of broker {broker} failed")
