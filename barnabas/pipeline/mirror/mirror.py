"""A mirror: one flow for each source, side by side, into one target; and what is told of them when they have ended."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError
from barnabas.pipeline.job_clusters import id_of, open_configured
from barnabas.pipeline.jobs.job import JobFailed
from barnabas.pipeline.mirror.config import MirrorConfig
from barnabas.pipeline.mirror.flow import Flow, FlowPlace
from barnabas.pipeline.mirror.naming import target_name
from barnabas.pipeline.mirror.rate import ByteRate
from barnabas.pipeline.mirror.state_topic import make_topics
from barnabas.pipeline.mirror.topics import find_wanted
from barnabas.pipeline.mirror.verification import Mirrored, Verification
from barnabas.pipeline.mirror.watch import Watch
from barnabas.runtime.clock import Clock


class Mirror:
    """Runs until its flows have caught up, or `is_stopping` says so, or one of them cannot go on."""

    def __init__(self, config: MirrorConfig, *, watch: Watch, is_stopping: Callable[[], bool], clock: Clock) -> None:
        self._config = config
        self._watch = watch
        self._is_stopping = is_stopping
        self._clock = clock
        self.flows: list[Flow] = []
        self.verdicts: dict[str, dict[str, Any]] = {}
        """By source and topic, as the report has them."""

    async def run(self) -> None:
        """Raises JobFailed."""
        async with AsyncExitStack() as exits:
            try:
                await self._open(exits)
            except ClientError as error:
                raise JobFailed(f"the clusters cannot be asked: {error}") from error
            tasks = [asyncio.create_task(flow.run()) for flow in self.flows]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            if self._config.verify:
                try:
                    await self._verify()
                except ClientError as error:
                    raise JobFailed(f"what was mirrored could not be verified: {error}") from error

    async def _open(self, exits: AsyncExitStack) -> None:
        config = self._config
        target = await exits.enter_async_context(open_configured(config.cluster))
        sources = [await exits.enter_async_context(open_configured(each.cluster)) for each in config.sources]
        target_id = await id_of(target, config.alias)
        ids = [await id_of(source, each.alias) for source, each in zip(sources, config.sources, strict=True)]
        names = {target_id: config.alias}
        for cluster_id, each in zip(ids, config.sources, strict=True):
            if cluster_id in names:
                raise JobFailed(
                    f"{each.alias} and {names[cluster_id]} are one cluster ({cluster_id}): what is mirrored would come "
                    "back, or come twice; give each cluster once"
                )
            names[cluster_id] = each.alias
        await make_topics(
            target,
            replication_factor=config.topics.replication_factor,
            offsets_retention_ms=config.offsets_retention_ms,
        )
        least = await self._least_partitions(sources)
        rate = ByteRate(config.bytes_per_second)
        self.flows = [
            Flow(
                config,
                each,
                FlowPlace(source, cluster_id, target, target_id),
                least_partitions=least,
                rate=rate,
                watch=self._watch,
                is_stopping=self._is_stopping,
                clock=self._clock,
            )
            for source, cluster_id, each in zip(sources, ids, config.sources, strict=True)
        ]

    async def _least_partitions(self, sources: list[Cluster]) -> dict[str, int]:
        """The partitions of a topic that several sources go into are as many as the largest of them has."""
        least: dict[str, int] = {}
        for source, each in zip(sources, self._config.sources, strict=True):
            for topic, count in (await find_wanted(source, each)).partitions.items():
                name = target_name(topic, each.alias, naming=self._config.naming, separator=self._config.separator)
                least[name] = max(count, least.get(name, 0))
        return least

    async def _verify(self) -> None:
        """Compare every topic of every source. Raises JobFailed where they differ, and ClientError."""
        wrong: list[str] = []
        for flow in self.flows:
            mirrored = Mirrored(flow.producer_ids, flow.foreign, flow.reached, flow.began, flow.target_began)
            verification = Verification(flow.place.source, flow.place.target, mirrored)
            for topic, route in flow.routes.items():
                verdict = await verification.verify(topic, route)
                self.verdicts.setdefault(flow.alias, {})[topic] = verdict.document()
                self._watch.add("records_verified", verdict.records)
                if verdict.reason:
                    self._watch.tell(f"{flow.alias}: topic {topic} was not verified: {verdict.reason}")
                wrong += [f"{flow.alias}: {route.target}: {each}" for each in verdict.differences]
        if wrong:
            raise JobFailed(f"source and target differ: {'; '.join(wrong)}")

    def reached(self) -> dict[str, dict[str, dict[str, list[int]]]]:
        """What this run mirrored: by source, topic and partition the first offset and the one behind the last."""
        told: dict[str, dict[str, dict[str, list[int]]]] = {}
        for flow in self.flows:
            for at, record in sorted(flow.reached.items()):
                began = flow.began.get(at, record)
                topic = told.setdefault(flow.alias, {}).setdefault(at.topic, {})
                topic[str(at.partition)] = [began.offset, record.offset]
        return told
