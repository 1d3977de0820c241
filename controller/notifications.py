"""What brokers and tools tell the controller by znodes that it has to attend to.  [P]

- /log_dir_event_notification: a broker lost a log directory. It is told of all its replicas once more; those that it
  answers with KAFKA_STORAGE_ERROR are offline from then on.
- /isr_change_notification: a leader of an older Kafka wrote a state znode itself. It is read, and everybody hears.
- /config/changes: a topic that allows unclean elections now may get a leader. That brokers allow it the broker that
  this controller is part of finds itself.

The first two are removed when they were attended to: a controller that ends before leaves them to the next one.
"""

from collections.abc import Iterable, Sequence

from barnabas.protocol.ids import NO_LEADER
from controller.actions import Action, ReadState, Report
from controller.events import ConfigChangesRead, IsrChangesRead, LogDirectoryEventsRead
from controller.office import Office, Procedure, batches
from controller.partitions import check_state, settle
from controller.replica_moves import on_isr_changed
from controller.state import StateRead
from zk_schema.ops import Delete


def on_log_directories(office: Office, read: LogDirectoryEventsRead) -> Procedure[None]:
    """Find out which replicas are gone with a directory."""
    state = office.state
    for broker in read.brokers:
        held = office.not_in_deletion(list(state.partitions_on.get(broker, ())))
        yield [Report(f"broker {broker} lost a log directory")]
        for batch in batches(held):
            for at in batch:
                office.outbox.lead(at, [broker])
            yield office.flush()
    yield from _remove(office, read.paths)


def on_isr_changes(office: Office, read: IsrChangesRead) -> Procedure[None]:
    """Learn what others wrote."""
    known = [at for at in office.not_in_deletion(read.partitions) if office.state.partition(at) is not None]
    for batch in batches(known):
        questions: list[Action] = [ReadState(at) for at in batch]
        replies = yield questions
        for at, reply in zip(batch, replies, strict=True):
            if isinstance(reply, StateRead):
                check_state(office, at, reply)
                office.state.apply_state(at, reply)
                office.outbox.publish(at)
        yield office.flush()
    yield from on_isr_changed(office, known)
    yield from _remove(office, read.paths)


def on_config_changes(office: Office, read: ConfigChangesRead) -> Procedure[None]:
    """Look again at partitions without a leader of these topics."""
    names = [name for name in read.topics if name in office.state.topics]
    yield from _look_for_leaders(office, names, reason="its configuration changed")


def on_unclean_allowed(office: Office) -> Procedure[None]:
    """Look again at all partitions without a leader; a topic may still forbid it."""
    yield from _look_for_leaders(office, office.state.topics, reason="unclean elections are allowed now")


def _look_for_leaders(office: Office, topics: Iterable[str], *, reason: str) -> Procedure[None]:
    leaderless = [
        at
        for name in topics
        for at, partition in office.state.partitions_of(name)
        if partition.leadership is not None and partition.leadership.leader == NO_LEADER
    ]
    if leaderless:
        yield from settle(office, leaderless, tell=(), reason=reason)


def _remove(office: Office, paths: Sequence[str]) -> Procedure[None]:
    # One that somebody else removed meanwhile is gone as it should be.
    for batch in batches(paths):
        yield [office.fenced(Delete(path), reason=f"{path} is attended to") for path in batch]
