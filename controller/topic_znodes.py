"""Topics and partitions that appear in ZooKeeper.  [P]

Whoever may write there, a broker that serves a request or a tool, makes a topic by its znode; the controller only
reacts: it gives each new partition its first leadership. A topic whose znode vanished without a request to delete it
was removed by hand: it is forgotten, its logs are left alone.
"""

from collections.abc import Mapping
from dataclasses import replace

from barnabas.protocol.ids import TopicPartition
from controller import deletion
from controller.actions import Action, Report
from controller.assignments import encode
from controller.events import Confirmed
from controller.office import Office, Procedure
from controller.partitions import settle
from controller.state import Assignment, TopicRead
from zk_schema import paths
from zk_schema.ops import Set, Written


def acceptable(name: str, read: TopicRead) -> tuple[TopicRead, list[Action]]:
    """The partitions that can be brought up; the rest is reported and stays without a leader."""
    accepted: dict[int, Assignment] = {}
    reports: list[Action] = []
    for number, assignment in read.partitions.items():
        count = len(assignment.replicas)
        if count and len(set(assignment.replicas)) == count:
            accepted[number] = assignment
        else:
            at, replicas = TopicPartition(name, number), list(assignment.replicas)
            told = f"{at} stays without a leader: replicas {replicas}, but different ones are needed, and at least one"
            reports.append(Report(told, severe=True))
    return replace(read, partitions=accepted), reports


def on_names(office: Office, names: frozenset[str], unknown: Mapping[str, TopicRead]) -> Procedure[None]:
    """Compare the topics with those known."""
    state = office.state
    orphans: list[str] = []
    for name in [name for name in state.topics if name not in names]:
        yield [Report(f"topic {name} vanished from ZooKeeper without a request to delete it", severe=True)]
        for at, partition in state.partitions_of(name):
            office.outbox.forget(at, partition)
        if name in state.deletions:
            orphans.append(name)
        state.apply_topic_gone(name)
        yield office.flush()
    yield from deletion.request(office, orphans)
    added: list[TopicPartition] = []
    for name, read in sorted(unknown.items()):
        accepted, reports = acceptable(name, read)
        yield reports
        added += state.apply_topic(name, accepted)
    if added:
        yield from settle(office, added, tell=(), reason="new topics")


def on_znode(office: Office, name: str, read: TopicRead | None) -> Procedure[None]:
    """The znode of a known topic changed: partitions may have been added."""
    topic = office.state.topics.get(name)
    if topic is None or read is None:
        return
    if (topic.version, topic.partitions.keys()) == (read.version, read.partitions.keys()):
        return
    if name in office.state.deletions:
        yield from _undo_growth(office, name, read)
        return
    accepted, reports = acceptable(name, read)
    yield reports
    for number, partition in topic.partitions.items():
        if number not in accepted.partitions or accepted.partitions[number] != partition.assignment:
            told = f"{TopicPartition(name, number)} keeps its replicas: a reassignment is how they move"
            yield [Report(told, severe=True)]
    added = office.state.apply_topic(name, accepted)
    if added:
        yield from settle(office, added, tell=(), reason=f"{name} got partitions")


def _undo_growth(office: Office, name: str, read: TopicRead) -> Procedure[None]:
    """A topic in deletion does not grow any more."""
    topic = office.state.topics[name]
    before = {number: partition.assignment for number, partition in topic.partitions.items()}
    operation = Set(paths.topic(name), encode(replace(read, partitions=before)), read.version)
    replies = yield [office.fenced(operation, reason=f"{name} is being deleted and gets no partitions")]
    for reply in replies:
        if isinstance(reply, Confirmed) and isinstance(reply.results[-1], Written):
            topic.version = reply.results[-1].stat.version
