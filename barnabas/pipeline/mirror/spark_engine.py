"""The engine `spark`: a streaming query for each source, from the source `barnabas` into the sink `barnabas`.

Topics, rules and circles are planned as by the other engine, and stand in the target's state topic. Records go through
Spark one by one; progress is in Spark's checkpoint, and the sink writes each batch in transactions that bear query and
batch, so that what is done again after a kill is there once. No offsets are mapped. When a source gets new topics or
partitions, the queries end after their batch and begin again with them.
"""

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from barnabas.client.errors import ClientError
from barnabas.client.partitioner import DefaultPartitioner
from barnabas.client.producer import Producer
from barnabas.client.producer_options import ProducerOptions
from barnabas.pipeline.job_clusters import id_of, open_configured
from barnabas.pipeline.jobs.config import ClusterConfig
from barnabas.pipeline.jobs.job import JobFailed, Run
from barnabas.pipeline.lake.folder import absolute, require_writable
from barnabas.pipeline.lake.table import LakeError
from barnabas.pipeline.mirror.config import MirrorConfig, SourceConfig
from barnabas.pipeline.mirror.provenance import origins_after, read_upstream
from barnabas.pipeline.mirror.state_records import OF_SPARK, Key, ProducerKey, ProducerRecord, RouteKey, RouteRecord
from barnabas.pipeline.mirror.state_topic import UpstreamState, make_topics, read_state
from barnabas.pipeline.mirror.topics import Route, TopicPlanner, find_wanted
from barnabas.pipeline.mirror.watch import Watch
from barnabas.pipeline.mirror.writing import Writer
from barnabas.pipeline.spark_errors import explain
from barnabas.pipeline.stream_following import FollowedQuery, await_sources
from barnabas.runtime.clock import SystemClock

_PAUSE_S: Final = 0.2
_STATE_TIMEOUT_S: Final = 60
_RECORDS_A_BATCH: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What one query mirrors."""

    config: SourceConfig
    routes: dict[str, Route]


def mirror_with_spark(run: Run[MirrorConfig]) -> None:
    """Mirror until it has caught up, or until it is told to stop. Raises JobFailed."""
    config = run.config
    watch = Watch(run.report, run.progress, SystemClock())
    assert config.checkpoint is not None
    try:
        checkpoint = absolute(config.checkpoint)
        require_writable(checkpoint)
        spark = run.spark()
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        is_done = False
        while not is_done and not run.stopping.is_set():
            plans = asyncio.run(_plan(config, watch))
            run.report.tell("topics", {plan.config.alias: sorted(plan.routes) for plan in plans})
            is_done = _carry(run, spark, plans, checkpoint, watch)
    except PySparkException as error:
        raise JobFailed(explain(error)) from error
    except (LakeError, ClientError) as error:
        raise JobFailed(str(error)) from error


def _carry(run: Run[MirrorConfig], spark: SparkSession, plans: list[SourcePlan], checkpoint: str, watch: Watch) -> bool:
    """Run the queries of these plans until all have caught up (True) or the plans do not fit any more."""
    config = run.config
    followed: list[FollowedQuery] = []
    try:
        for plan in plans:
            if not plan.routes:
                continue
            writer = (
                mirrored(spark, config, plan)
                .writeStream.format("barnabas")
                .options(**config.cluster.client_options())
                .option("kafka.compression.type", config.compression)
                .option("transactionalIdPrefix", f"barnabas-mirror-{config.name}-{plan.config.alias}")
                .option("checkpointLocation", os.path.join(checkpoint, plan.config.alias))
                .outputMode("append")
            )
            if config.mode == "catch_up":
                query = writer.trigger(availableNow=True).start()
            else:
                query = writer.trigger(processingTime=f"{config.transaction_ms} milliseconds").start()
            followed.append(FollowedQuery(query))
            await_sources(query, run)
        return _follow(run, plans, followed, watch)
    finally:
        for each in followed:
            each.end()
        _tell(followed, watch)


def _follow(run: Run[MirrorConfig], plans: list[SourcePlan], followed: list[FollowedQuery], watch: Watch) -> bool:
    clock = SystemClock()
    look_at_ms = clock.monotonic_ms() + run.config.refresh_ms
    while not run.stopping.wait(_PAUSE_S):
        _tell(followed, watch)
        active = [each.query.isActive for each in followed]
        if run.config.mode == "catch_up":
            if not any(active):
                return True
        elif not all(active):
            # What ended it is raised when it is ended.
            return True
        elif clock.monotonic_ms() >= look_at_ms:
            if asyncio.run(_has_changed(plans)):
                return False
            look_at_ms = clock.monotonic_ms() + run.config.refresh_ms
    return True


def _tell(followed: list[FollowedQuery], watch: Watch) -> None:
    for each in followed:
        for batch in each.batches():
            watch.add("records", batch.numInputRows)
            watch.add("batches")
    watch.show()


def mirrored(spark: SparkSession, config: MirrorConfig, plan: SourcePlan) -> DataFrame:
    """The records of a source as the sink takes them: with the topic and the partition where they belong."""
    records = (
        spark.readStream.format("barnabas")
        .options(**plan.config.cluster.client_options())
        .option("subscribe", ",".join(sorted(plan.routes)))
        .option("startingOffsets", plan.config.start)
        .option("maxOffsetsPerTrigger", str(_RECORDS_A_BATCH))
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("failOnDataLoss", str(config.on_data_loss == "fail").lower())
        .load()
    )
    return records.select(
        _by_topic({topic: f.lit(route.target) for topic, route in plan.routes.items()}).alias("topic"),
        _by_topic({topic: _partition(route) for topic, route in plan.routes.items()}).alias("partition"),
        "key",
        "value",
        "headers",
        "timestamp",
    )


def _by_topic(columns: dict[str, Column]) -> Column:
    """For each topic the column that belongs to it."""
    ((topic, column), *others) = columns.items()
    chosen = f.when(f.col("topic") == topic, column)
    for topic, column in others:
        chosen = chosen.when(f.col("topic") == topic, column)
    return chosen


def _partition(route: Route) -> Column:
    """Where a record goes (see partition_rule.py); null where the sink is to choose by the key."""
    if route.rule.is_same:
        return f.col("partition")
    if route.rule.target_count == 1:
        return f.lit(0)
    return f.when(f.col("key").isNull(), f.col("partition") % route.rule.target_count)


async def _has_changed(plans: list[SourcePlan]) -> bool:
    """Whether a source has other topics or partitions than were planned. What cannot be asked has not changed."""
    try:
        for plan in plans:
            async with open_configured(plan.config.cluster) as source:
                found = (await find_wanted(source, plan.config)).partitions
            planned = {topic: route.rule.source_count for topic, route in plan.routes.items()}
            if any(planned.get(topic) != count for topic, count in found.items()):
                return True
    except ClientError:
        return False
    return False


async def _plan(config: MirrorConfig, watch: Watch) -> list[SourcePlan]:
    """Plan the topics of all sources and write their routes down. Raises JobFailed and ClientError."""
    async with AsyncExitStack() as exits:
        # Its options are the sink's.
        plain = ClusterConfig(bootstrap_servers=config.cluster.bootstrap_servers)
        target = await exits.enter_async_context(open_configured(plain))
        target_id = await id_of(target, config.alias)
        await make_topics(
            target,
            replication_factor=config.topics.replication_factor,
            offsets_retention_ms=config.offsets_retention_ms,
        )
        state = await read_state(target, timeout_s=_STATE_TIMEOUT_S)
        ids = {target_id: config.alias}
        plans: list[SourcePlan] = []
        for each in config.sources:
            source = await exits.enter_async_context(open_configured(each.cluster))
            source_id = await id_of(source, each.alias)
            if source_id in ids:
                raise JobFailed(f"{each.alias} and {ids[source_id]} are one cluster ({source_id}); give each once")
            ids[source_id] = each.alias
            if state.progress_of(config.name, each.alias):
                raise JobFailed(
                    f"mirror {config.name} has run with engine='client', and its progress is at the target: Spark "
                    "would begin anew; give the mirror another name, and its topics with it"
                )
            upstream_state = UpstreamState(source)
            await upstream_state.refresh()
            upstream = read_upstream(upstream_state.state.producers.values(), upstream_state.state.routes)
            planner = TopicPlanner(
                config,
                each,
                source=source,
                target=target,
                target_id=target_id,
                least_partitions={},
                watch=watch,
            )
            routes, missing = await planner.plan(state.routes_of(config.name, each.alias), upstream)
            if missing:
                raise JobFailed(f"{each.alias} has no topic {', '.join(missing)}; create it, or take it from the list")
            owner = ProducerRecord(cluster=source_id, incarnation=OF_SPARK, producer_ids=[])
            records: list[tuple[Key, ProducerRecord | RouteRecord]] = [(ProducerKey(config.name, each.alias), owner)]
            records += [
                (
                    RouteKey(config.name, each.alias, topic),
                    RouteRecord(
                        cluster=source_id,
                        target=route.target,
                        origins=sorted(origins_after(topic, upstream, source_id)),
                        source_partitions=route.rule.source_count,
                        target_partitions=route.rule.target_count,
                    ),
                )
                for topic, route in routes.items()
            ]
            options = ProducerOptions(transactional_id=f"barnabas-mirror-{config.name}-{each.alias}")
            async with Producer(target, options=options) as producer:
                partitioner = DefaultPartitioner(target.random)
                writer = Writer(producer, partitioner, mirror=config.name, source=each.alias, progress={})
                await writer.register(records)
            plans.append(SourcePlan(each, routes))
        return plans
