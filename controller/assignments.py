"""Writing replicas into the znodes of topics.  [P]

A topic's znode holds the replicas of all its partitions, and others write it too: a broker that adds partitions, a
tool. So it is read, the partitions in question are changed, and it is written under the version that was read; where
that was too late, or the outcome is not known, it is read again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from barnabas.protocol.ids import TopicPartition
from controller.actions import Action, ReadTopic, Report
from controller.events import Confirmed, Refused
from controller.office import Office, Procedure
from controller.state import Assignment, TopicRead
from zk_schema import paths
from zk_schema.ops import Set, WriteForbidden, Written
from zk_schema.payloads import TopicAssignment

_MAX_ROUNDS: Final = 20


def encode(read: TopicRead) -> bytes:
    """The data of a topic's znode."""
    partitions = read.partitions.items()
    return TopicAssignment(
        partitions={number: each.replicas for number, each in partitions},
        adding_replicas={number: each.adding for number, each in partitions if each.adding},
        removing_replicas={number: each.removing for number, each in partitions if each.removing},
        topic_id=read.topic_id,
    ).encode()


def write_assignments(
    office: Office, wanted: Mapping[TopicPartition, Assignment], *, reason: str
) -> Procedure[set[TopicPartition]]:
    """Let ZooKeeper say so; the partitions of which it does. What is known of them here is not changed."""
    remaining: dict[str, dict[int, Assignment]] = {}
    for at, assignment in wanted.items():
        remaining.setdefault(at.topic, {})[at.partition] = assignment
    done: set[TopicPartition] = set()
    for _ in range(_MAX_ROUNDS):
        if not remaining:
            return done
        written = yield from _try(office, remaining, reason)
        for name in written:
            done.update(TopicPartition(name, number) for number in remaining.pop(name))
    told = f"{reason}: somebody else keeps writing the znodes of {', '.join(remaining)}"
    yield [Report(told, severe=True)]
    return done


def _try(office: Office, remaining: dict[str, dict[int, Assignment]], reason: str) -> Procedure[list[str]]:
    """One round: the topics whose znodes say what they should. Those that are gone leave `remaining`."""
    questions: list[Action] = [ReadTopic(name) for name in remaining]
    reads = yield questions
    done: list[str] = []
    changed: dict[str, TopicRead] = {}
    for name, read in zip(list(remaining), reads, strict=True):
        if not isinstance(read, TopicRead) or not remaining[name].keys() <= read.partitions.keys():
            del remaining[name]
            yield [Report(f"{reason}: the znode of {name} is gone or has no such partitions", severe=True)]
            continue
        after = replace(read, partitions={**read.partitions, **remaining[name]})
        if after == read:
            done.append(name)
            _note_version(office, name, read)
        else:
            changed[name] = after
    writes: list[Action] = [
        office.fenced(Set(paths.topic(name), encode(after), after.version), reason=f"{reason}: replicas of {name}")
        for name, after in changed.items()
    ]
    replies = yield writes
    for (name, after), reply in zip(changed.items(), replies, strict=True):
        if isinstance(reply, Refused) and isinstance(reply.error, WriteForbidden):
            del remaining[name]
            yield [Report(f"{reason}: the znode of {name} cannot be written: {reply.error}", severe=True)]
        elif isinstance(reply, Confirmed):
            done.append(name)
            if isinstance(reply.results[-1], Written):
                _note_version(office, name, replace(after, version=reply.results[-1].stat.version))
    return done


def _note_version(office: Office, name: str, read: TopicRead) -> None:
    """Our own write is no news; but a znode with partitions that are not known yet has to be looked at."""
    topic = office.state.topics.get(name)
    if topic is not None and topic.partitions.keys() >= read.partitions.keys():
        topic.version = read.version
