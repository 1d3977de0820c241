"""What the job audit does: it counts three tiers apart, reconciles them and names what differs.

In an order that lets nothing seem lost that is only under way: the lake's version is fixed first, then the ends of the
topics; what came after the lake's last load counts as not loaded yet (`through = "loaded"`) or as missing
(`through = "latest"`, where the loads are over). It writes nothing but its report: after a kill it is run again.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.errors import PySparkException

from barnabas.client.errors import ClientError
from barnabas.pipeline.audit.config import AuditConfig, time_bounds
from barnabas.pipeline.audit.counting import HIGH, LOW, Scope
from barnabas.pipeline.audit.findings import gather_ranges, without_compacted
from barnabas.pipeline.audit.lake_tier import Lake, open_lake
from barnabas.pipeline.audit.presentation import MOST_CELLS, MOST_SHOWN, cells_as_json, show
from barnabas.pipeline.audit.reconciliation import Tiers, Verdict, reconcile, suspicious
from barnabas.pipeline.audit.tallies import Cell, Tally, add_up
from barnabas.pipeline.audit.tiers import (
    Told,
    compare,
    count_table,
    count_topic,
    pick_from_table,
    pick_from_topic,
    read_counts,
    topic_tasks,
)
from barnabas.pipeline.audit.topic_reading import Hole
from barnabas.pipeline.given_options import OptionError
from barnabas.pipeline.jobs.config import ConfigError
from barnabas.pipeline.jobs.job import JobFailed, Run
from barnabas.pipeline.lake.table import LakeError
from barnabas.pipeline.source.cluster_view import ClusterView
from barnabas.pipeline.source.options import SourceOptions, parse_batch_options
from barnabas.pipeline.source.planning import LogSpan
from barnabas.pipeline.spark_errors import explain
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.clock import SystemClock


@dataclass(frozen=True)
class _Topics:
    """What the cluster says of the topics, and of the one with count events; how they are read."""

    options: SourceOptions
    spans: Mapping[TopicPartition, LogSpan]
    compacted: set[str]
    events: Mapping[TopicPartition, LogSpan]
    event_options: SourceOptions


def audit(run: Run[AuditConfig]) -> None:
    """Audit. Raises JobFailed where it does not balance or cannot be done, SparkUnavailable."""
    config = run.config
    try:
        since_ms, until_ms = time_bounds(config.range, SystemClock().wall_ms())
        run.progress.show("looking at the lake")
        lake = open_lake(config.lake, with_ends=config.range.through == "loaded")
        run.progress.show("looking at the topics")
        topics = asyncio.run(_ask(config))
        work = _Audit(run, lake, topics, since_ms, until_ms)
        tiers = work.count()
        verdicts = work.judge(tiers)
    except (ClientError, ConfigError, LakeError, OptionError) as error:
        raise JobFailed(str(error)) from error
    except PySparkException as error:
        raise JobFailed(explain(error)) from error
    _tell(run, tiers, verdicts, work.holes)


class _Audit:
    """Counts and compares. `holes` are known when it has counted."""

    def __init__(
        self, run: Run[AuditConfig], lake: Lake, topics: _Topics, since_ms: int | None, until_ms: int | None
    ) -> None:
        self._run = run
        self._lake = lake
        self._topics = topics
        names = frozenset(run.config.topics)
        starts = {(at.topic, at.partition): span.start for at, span in topics.spans.items()}
        ends = {(at.topic, at.partition): span.end for at, span in topics.spans.items()}
        if run.config.range.through == "loaded":
            # Of a partition that no load has seen nothing need be in the lake.
            ends = {key: lake.ends.get(TopicPartition(*key), 0) for key in ends}
        self._topic_scope = Scope(names, ends, 0, since_ms, until_ms)
        self._lake_scope = Scope(names, starts, 0, since_ms, until_ms)
        self.holes: list[Hole] = []
        self._tasks = topic_tasks(run.spark(), topics.spans, topics.options)

    def count(self) -> Tiers:
        """All tiers. Raises what Spark raises."""
        run, spark, topics = self._run, self._run.spark(), self._topics
        run.progress.show("counting what the topics hold")
        topic, self.holes = count_topic(spark, self._tasks, topics.options, self._topic_scope, topics.compacted)
        run.progress.show("counting the table's rows")
        table = count_table(spark, self._lake.table, self._lake_scope)
        dead: dict[int, dict[Cell, Tally]] = {}
        if self._lake.dead_letters is not None:
            run.progress.show("counting the dead letters")
            dead = count_table(spark, self._lake.dead_letters, self._lake_scope)
        producers = None
        if run.config.producers is not None:
            run.progress.show("reading what producers counted")
            tasks = topic_tasks(spark, topics.events, topics.event_options)
            told = read_counts(spark, tasks, topics.event_options, self._topic_scope)
            _tell_of_producers(run, told)
            producers = told.tallies
        return Tiers(
            topic=topic.get(LOW, {}),
            beyond=topic.get(HIGH, {}),
            table=table.get(HIGH, {}),
            dead_letters=dead.get(HIGH, {}),
            expired=add_up([*table.get(LOW, {}).items(), *dead.get(LOW, {}).items()]),
            producers=producers,
        )

    def judge(self, tiers: Tiers) -> list[Verdict]:
        """Verdicts, after a look at each offset of cells in which topic and lake differ."""
        compacted, cells = self._topics.compacted, frozenset(suspicious(tiers))
        if not cells:
            return reconcile(tiers, compacted_topics=compacted)
        run, spark = self._run, self._run.spark()
        run.progress.show(f"looking at {len(cells)} hours that differ, offset by offset")
        of_lake = pick_from_table(spark, self._lake.table, self._lake_scope, part=HIGH, cells=cells)
        if self._lake.dead_letters is not None:
            dead = pick_from_table(spark, self._lake.dead_letters, self._lake_scope, part=HIGH, cells=cells)
            of_lake = of_lake.unionByName(dead)
        of_topic = pick_from_topic(spark, self._tasks, self._topics.options, self._topic_scope, part=LOW, cells=cells)
        findings, are_more = compare(of_topic, of_lake, run.config.named_offsets)
        if are_more:
            run.report.tell("offsets_left_out", f"only the first {len(findings)} differing offsets were looked at")
        ranges, explained = without_compacted(gather_ranges(findings), compacted)
        return reconcile(tiers, compacted_topics=compacted, ranges=ranges, explained=explained)


async def _ask(config: AuditConfig) -> _Topics:
    """Raises OptionError and ClientError."""
    options = _reading(config, config.topics, config.isolation_level)
    async with ClusterView(options) as view:
        spans = await view.spans(await view.partitions(all_must_exist=True))
        compacted = await view.compacted(config.topics)
    if config.producers is None:
        return _Topics(options, spans, compacted, {}, options)
    event_options = _reading(config, [config.producers.topic], "read_committed")
    async with ClusterView(event_options) as view:
        events = await view.spans(await view.partitions(all_must_exist=True))
    return _Topics(options, spans, compacted, events, event_options)


def _reading(config: AuditConfig, topics: list[str], isolation_level: str) -> SourceOptions:
    return parse_batch_options(
        {
            **config.cluster.client_options(),
            "kafka.isolation.level": isolation_level,
            "subscribe": ",".join(topics),
        }
    )


def _tell_of_producers(run: Run[AuditConfig], told: Told) -> None:
    run.report.add("count_events", told.events)
    if told.unreadable:
        run.report.add("unreadable_count_events", sum(told.unreadable.values()))
        run.report.tell("unreadable_count_events", told.unreadable)
    if told.silences:
        run.report.tell("producers_not_ended", [each._asdict() for each in told.silences])


def _tell(run: Run[AuditConfig], tiers: Tiers, verdicts: list[Verdict], holes: list[Hole]) -> None:
    """Show and report what was found. Raises JobFailed where it does not balance."""
    report = run.report
    for name, tallies in (
        ("producer_records", tiers.producers or {}),
        ("topic_records", tiers.topic),
        ("table_rows", tiers.table),
        ("dead_letters", tiers.dead_letters),
        ("expired_rows", tiers.expired),
        ("records_beyond", tiers.beyond),
    ):
        report.add(name, sum(each.records for each in tallies.values()))
    unbalanced = [each for each in verdicts if not each.balances]
    report.add("hours", len(verdicts))
    report.add("hours_that_differ", len(unbalanced))
    report.add("holes", len(holes))
    report.tell("balances", not unbalanced and not holes)
    report.tell("holes", [{"partition": str(each.topic_partition), "offsets": str(each)} for each in holes])
    report.tell("cells", cells_as_json(tiers, verdicts))
    report.tell("cells_left_out", max(0, len(verdicts) - MOST_CELLS))
    run.progress.result(show(tiers, verdicts))
    for hole in holes[:MOST_SHOWN]:
        run.progress.result(f"{hole.topic_partition}: no batch of the log holds offsets {hole}")
    if unbalanced:
        first = unbalanced[0]
        raise JobFailed(
            f"the audit does not balance: {len(unbalanced)} of {len(verdicts)} hours differ, the first is "
            f"{first.cell}: {'; '.join(first.differences)}"
        )
    if holes:
        raise JobFailed(
            f"the audit does not balance: no batch of {holes[0].topic_partition} holds offsets {holes[0]}, and its "
            f"topic is not compacted; {len(holes)} such holes in all. A part of the log is gone, or the topic was "
            "compacted once and no longer is"
        )
