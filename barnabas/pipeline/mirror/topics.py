"""Which topics of a source are mirrored now, where they go, and how: looked at when a mirror starts and now and then.

A topic that the target lacks is made with the source's partitions and those of its settings that are chosen. Where
partitions are added at the source and the rule has been one to one, they are added at the target, so that it stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.client.admin import Admin, ConfigResource, ConfigSource, NewTopic, ResourceType
from barnabas.client.cluster import Cluster
from barnabas.pipeline.job_clusters import config_value, create_missing, known_topics
from barnabas.pipeline.jobs.job import JobFailed
from barnabas.pipeline.mirror.config import MirrorConfig, SourceConfig
from barnabas.pipeline.mirror.naming import has_been_at, is_internal, target_name, wanted_topics
from barnabas.pipeline.mirror.partition_rule import PartitionRule
from barnabas.pipeline.mirror.provenance import Upstream, find_cycles
from barnabas.pipeline.mirror.state_records import RouteRecord
from barnabas.pipeline.mirror.watch import Watch


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic goes, and by which rule."""

    target: str
    rule: PartitionRule


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a source has of the topics that are to be mirrored: their partitions; and those that it lacks."""

    partitions: Mapping[str, int]
    missing: list[str]


async def find_wanted(source: Cluster, config: SourceConfig) -> Wanted:
    """Look at a source. Raises ClientError."""
    known = (await source.metadata(None)).topics
    found = {name: len(topic.partitions) for name, topic in known.items() if topic.partitions and not topic.is_internal}
    names, missing = wanted_topics(found, topics=config.topics, pattern=config.pattern, exclude=config.exclude)
    return Wanted({name: found[name] for name in names}, missing)


class TopicPlanner:
    """Plans the topics of one source. `least_partitions` are of topics of the target that several sources go into."""

    def __init__(
        self,
        config: MirrorConfig,
        source_config: SourceConfig,
        *,
        source: Cluster,
        target: Cluster,
        target_id: str,
        least_partitions: Mapping[str, int],
        watch: Watch,
    ) -> None:
        self._config = config
        self._source_config = source_config
        self._source = source
        self._target = target
        self._target_id = target_id
        self._least_partitions = least_partitions
        self._watch = watch
        self._left_out: set[str] = set()
        self._looked_at: set[str] = set()

    async def plan(self, known: Mapping[str, RouteRecord], upstream: Upstream) -> tuple[dict[str, Route], list[str]]:
        """The routes of all topics, those of the target made where they were missing; and topics that are missing.

        Raises JobFailed for what may not be mirrored, and ClientError.
        """
        wanted = await find_wanted(self._source, self._source_config)
        topics = self._without_cycles(wanted.partitions, upstream)
        names = {topic: self.target_of(topic) for topic in topics}
        for topic, target in names.items():
            if is_internal(target):
                raise JobFailed(f"topic {topic} cannot be mirrored: the mirror itself uses {target}")
        await self._make(names, topics)
        counts = {
            name: len(found.partitions) for name, found in (await known_topics(self._target, names.values())).items()
        }
        routes: dict[str, Route] = {}
        for topic, target in names.items():
            count = counts[target]
            before = known.get(topic)
            was_same = before is not None and before.source_partitions == before.target_partitions
            if was_same and self._config.topics.grow and count < topics[topic]:
                count = await self._grow(target, topics[topic])
            routes[topic] = Route(target, PartitionRule(topics[topic], count))
            await self._look_at(target)
        gone, _ = wanted_topics(
            set(known) - set(wanted.partitions),
            topics=self._source_config.topics,
            pattern=self._source_config.pattern,
            exclude=self._source_config.exclude,
        )
        return routes, sorted({*wanted.missing, *gone})

    def target_of(self, topic: str) -> str:
        """What a topic of the source is called at the target."""
        config = self._config
        return target_name(topic, self._source_config.alias, naming=config.naming, separator=config.separator)

    def _without_cycles(self, topics: Mapping[str, int], upstream: Upstream) -> dict[str, int]:
        """The topics that do not come from the target. Raises JobFailed where that is no case for leaving one out."""
        config, source = self._config, self._source_config
        refused: dict[str, str] = {}
        if config.naming == "alias":
            for topic in topics:
                if has_been_at(topic, config.alias, config.separator):
                    refused[topic] = f"its name says that it came from {config.alias}"
        for cycle in find_cycles(topics, upstream, self._target_id):
            if not cycle.is_direct:
                refused[cycle.topic] = f"it has records of {config.alias} that came over other clusters"
            elif config.loops == "refuse":
                refused[cycle.topic] = f"a mirror writes records of {config.alias} into it"
        if refused and (config.naming == "same" or source.pattern is None):
            told = "; ".join(f"{topic}: {why}" for topic, why in sorted(refused.items()))
            advice = "" if config.naming == "alias" else ", use naming='alias', or loops='drop' between two clusters"
            raise JobFailed(
                f"{source.alias} -> {config.alias} would go round in a circle ({told}). Leave the topic out{advice}"
            )
        for topic in sorted(set(refused) - self._left_out):
            self._left_out.add(topic)
            self._watch.add("topics_left_out")
            self._watch.tell(f"{source.alias}: topic {topic} is not mirrored: {refused[topic]}")
        return {topic: count for topic, count in topics.items() if topic not in refused}

    async def _make(self, names: Mapping[str, str], partitions: Mapping[str, int]) -> None:
        there = (await self._target.metadata(list(names.values()))).topics if names else {}
        new = []
        for topic, target in names.items():
            if there[target].partitions:
                continue
            count = max(partitions[topic], self._least_partitions.get(target, 0))
            configs = await self._copied_configs(topic) | dict(self._config.topics.configs)
            configs["message.timestamp.type"] = "CreateTime"
            new.append(NewTopic(target, count, self._config.topics.replication_factor, configs))
        for name in await create_missing(self._target, new):
            self._watch.add("topics_created")
            self._watch.tell(f"{self._config.alias}: topic {name} was made")

    async def _copied_configs(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = await Admin(self._source).describe_configs(resource, self._config.topics.copied)
        return {
            each.name: each.value
            for each in entries
            if each.source is ConfigSource.TOPIC and each.value is not None and each.name in self._config.topics.copied
        }

    async def _grow(self, target: str, count: int) -> int:
        outcome = (await Admin(self._target).create_partitions({target: count}))[target]
        if outcome is not None:
            raise JobFailed(f"{self._config.alias}: topic {target} cannot get {count} partitions: {outcome}")
        await known_topics(self._target, [target], least_partitions=count)
        self._watch.tell(f"{self._config.alias}: topic {target} has {count} partitions now, as at the source")
        return count

    async def _look_at(self, target: str) -> None:
        """Refuse, once, a topic that would not keep timestamps. Raises JobFailed."""
        if target in self._looked_at:
            return
        kind = await config_value(self._target, target, "message.timestamp.type")
        if kind == "LogAppendTime":
            raise JobFailed(
                f"{self._config.alias}: topic {target} has message.timestamp.type=LogAppendTime and would give all "
                "records other timestamps; set it to CreateTime"
            )
        self._looked_at.add(target)
