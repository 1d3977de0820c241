"""Consumer groups that move over: their offsets at the sources, as offsets of the target.

What the target's log ends at is asked first, then how far the mirror is, then what it mapped: whatever the mirror
writes meanwhile makes a translated offset too low by that, never too high.
"""

from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.client.admin import EARLIEST, LATEST, Admin
from barnabas.client.cluster import Cluster
from barnabas.client.coordinators import OffsetAndMetadata
from barnabas.client.group_admin import GroupAdmin
from barnabas.pipeline.jobs.job import JobFailed
from barnabas.pipeline.mirror.offset_map import Sync, Translated, translate
from barnabas.pipeline.mirror.state_records import ProgressKey, ProgressRecord, RouteRecord, read_key, read_syncs
from barnabas.pipeline.mirror.state_topic import OFFSETS, exists, read_state, read_to_end
from barnabas.protocol.ids import TopicPartition

_STATE_TIMEOUT_S: Final = 60

Committed = Mapping[TopicPartition, OffsetAndMetadata]


class Move(NamedTuple):
    """One partition of the target for one group: where the group goes on, and whether nothing comes twice."""

    group: str
    at: TopicPartition
    offset: int
    is_exact: bool
    metadata: str


@dataclass(slots=True)
class SyncFinder:
    """Keeps, of all syncs, those that the translation of some offsets needs: the first one, and the last not behind.

    Syncs of a partition come in the order of their offsets.
    """

    wanted: Mapping[TopicPartition, frozenset[int]]
    _first: dict[tuple[TopicPartition, int], Sync] = field(default_factory=dict)
    _last: dict[tuple[TopicPartition, int, int], Sync] = field(default_factory=dict)

    def add(self, at: TopicPartition, partition: int, syncs: Iterable[Sync]) -> None:
        """Syncs from one partition of the source to one of the target."""
        offsets = self.wanted.get(at, frozenset())
        for sync in syncs:
            self._first.setdefault((at, partition), sync)
            for offset in offsets:
                if sync.source <= offset:
                    self._last[at, partition, offset] = sync

    def found(self, at: TopicPartition, partition: int, offset: int) -> list[Sync]:
        """What there is for one offset, sorted."""
        first = self._first.get((at, partition))
        last = self._last.get((at, partition, offset))
        return sorted({each for each in (first, last) if each is not None})


class Translation:
    """Translates offsets of one source of a mirror. Use `load` first, with every offset that will be asked about."""

    def __init__(self, target: Cluster, mirror: str, source: str) -> None:
        self._target = target
        self._mirror = mirror
        self._source = source
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._syncs = SyncFinder({})
        self.routes: dict[str, RouteRecord] = {}
        self.progress: dict[TopicPartition, ProgressRecord] = {}

    async def load_routes(self) -> None:
        """Learn which topics are mirrored, and where to. Raises ClientError."""
        state = await read_state(self._target, timeout_s=_STATE_TIMEOUT_S)
        self.routes = state.routes_of(self._mirror, self._source)
        metadata = (await self._target.metadata([each.target for each in self.routes.values()])).topics
        partitions = [TopicPartition(name, number) for name, topic in metadata.items() for number in topic.partitions]
        admin = Admin(self._target)
        self._starts = {
            at: each.offset for at, each in (await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))).items()
        }
        self._ends = {
            at: each.offset for at, each in (await admin.list_offsets(dict.fromkeys(partitions, LATEST))).items()
        }
        # Only now: what is behind these ends came later than this.
        state = await read_state(self._target, timeout_s=_STATE_TIMEOUT_S)
        self.progress = state.progress_of(self._mirror, self._source)

    async def load_syncs(self, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
        """Read what these offsets of the source need. Raises ClientError."""
        wanted: dict[TopicPartition, set[int]] = {}
        for at, offset in offsets:
            wanted.setdefault(at, set()).add(offset)
        self._syncs = SyncFinder({at: frozenset(each) for at, each in wanted.items()})
        async with aclosing(read_to_end(self._target, OFFSETS, committed=True)) as batches:
            async for records in batches:
                for record in records:
                    key = read_key(record.key)
                    if not isinstance(key, ProgressKey) or (key.mirror, key.source) != (self._mirror, self._source):
                        continue
                    progress = self.progress.get(key.topic_partition)
                    if progress is None or key.topic_partition not in wanted:
                        continue
                    for partition, syncs in read_syncs(record.value, progress.log).items():
                        self._syncs.add(key.topic_partition, partition, syncs)

    def needs(self, committed: Committed) -> list[tuple[TopicPartition, int]]:
        """The offsets of the source that the translation of a group's needs."""
        topics = {at.topic for at in committed if at.topic in self.routes}
        return [
            (at, committed[at].offset if at in committed else record.begin)
            for at, record in self.progress.items()
            if at.topic in topics
        ]

    def moves(self, group: str, committed: Committed) -> list[Move]:
        """Where a group goes on in every partition of the target that it has read something of."""
        offsets = dict(self.needs(committed))
        moves: list[Move] = []
        for topic in sorted({at.topic for at in committed if at.topic in self.routes}):
            route = self.routes[topic]
            is_same = route.source_partitions == route.target_partitions
            for at in sorted(each for each in self._ends if each.topic == route.target):
                there = TopicPartition(topic, at.partition)
                if is_same and there not in committed:
                    continue
                found = [
                    self._translated(each, offset, at, is_one_to_one=is_same)
                    for each, offset in offsets.items()
                    if each.topic == topic and self._reaches(each, at.partition, is_same=is_same)
                ]
                least = min(found, default=Translated(self._ends[at], is_exact=True), key=lambda each: each.offset)
                note = committed[there].metadata if is_same else ""
                moves.append(Move(group, at, least.offset, len(found) <= 1 and least.is_exact, note))
        return moves

    def _reaches(self, at: TopicPartition, partition: int, *, is_same: bool) -> bool:
        return str(partition) in self.progress[at].behind or (is_same and at.partition == partition)

    def _translated(self, at: TopicPartition, offset: int, to: TopicPartition, *, is_one_to_one: bool) -> Translated:
        record = self.progress[at]
        return translate(
            offset,
            self._syncs.found(at, to.partition, offset),
            record.reached,
            partition=to.partition,
            begin=record.begin,
            log_start=self._starts[to],
            log_end=self._ends[to],
            is_one_to_one=is_one_to_one,
        )


async def translate_groups(
    source: Cluster, target: Cluster, *, mirror: str, alias: str, groups: Iterable[str]
) -> list[Move]:
    """The moves of the groups of a source, all that read mirrored topics where none is named.

    Raises JobFailed where a group that is named has committed nothing of what is mirrored, and ClientError.
    """
    if not await exists(target, OFFSETS.topic):
        raise JobFailed(f"the target has no topic {OFFSETS.topic}: nothing was mirrored into it")
    admin = GroupAdmin(source)
    named = list(groups)
    translation = Translation(target, mirror, alias)
    await translation.load_routes()
    found: dict[str, Committed] = {}
    for group in named or [each.group_id for each in await admin.list_groups()]:
        committed = {
            at: each
            for at, each in (await admin.committed(group)).items()
            if at in translation.progress and at.topic in translation.routes
        }
        if committed:
            found[group] = committed
        elif named:
            raise JobFailed(f"{alias}: group {group} has committed no offset of a topic that {mirror} mirrors")
    await translation.load_syncs(each for committed in found.values() for each in translation.needs(committed))
    return [move for group, committed in sorted(found.items()) for move in translation.moves(group, committed)]


async def commit_moves(target: Cluster, moves: Iterable[Move]) -> tuple[int, int]:
    """Commit at the target what is not behind what the group has committed there; how many, and how many were.

    Raises JobFailed where the group has members there, and ClientError.
    """
    admin = GroupAdmin(target)
    by_group: dict[str, list[Move]] = {}
    for move in moves:
        by_group.setdefault(move.group, []).append(move)
    done = kept = 0
    for group, wanted in by_group.items():
        present = await admin.committed(group)
        news = {
            each.at: OffsetAndMetadata(each.offset, -1, each.metadata)
            for each in wanted
            if each.at not in present or present[each.at].offset < each.offset
        }
        for at, error in (await admin.commit(group, news) if news else {}).items():
            if error is not None:
                raise JobFailed(f"group {group}, {at}: {error}; at the target it must be without members")
        done += len(news)
        kept += len(wanted) - len(news)
    return done, kept
