"""The metrics of the cleaner.

Names are Kafka's (`kafka.log:type=LogCleaner` and `type=LogCleanerManager`) where it has them; what it has not begins
with `barnabas_`. Percentages and seconds are Kafka's too. Read off the cleaner when somebody asks.
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from barnabas.runtime.clock import Clock
from barnabas.storage.cleaner import Cleaner
from barnabas.storage.cleaner_report import CLEANED, RUNNING
from barnabas.storage.directories import LogDirectories
from broker.metric_exposition import counter, gauge

_PARTITION: Final = ("topic", "partition")


def cleaner_families(cleaner: Cleaner, directories: LogDirectories, clock: Clock) -> Iterator[Metric]:
    """All of them."""
    figures = cleaner.figures
    since_ms = clock.wall_ms() - figures.last_looked_ms if figures.last_looked_ms >= 0 else 0
    for name, documentation, value in (
        ("logcleaner_cleaner_recopy_percent", "Bytes kept of those read by the last cleaning", 100 * figures.recopied),
        ("logcleaner_max_clean_time_secs", "How long the last cleaning took", figures.last_run_ms / 1000),
        ("logcleaner_max_buffer_utilization_percent", "How full its map of keys was", 100 * figures.map_filled),
        (
            "logcleaner_max_compaction_delay_secs",
            "By how much max.compaction.lag.ms is missed",
            figures.max_compaction_delay_ms / 1000,
        ),
        ("logcleanermanager_max_dirty_percent", "Dirty part of the dirtiest log", 100 * figures.max_dirty_ratio),
        ("logcleanermanager_time_since_last_run_ms", "Since the cleaner looked at the logs", since_ms),
    ):
        yield gauge(f"kafka_log_{name}", documentation, value)
    yield counter("barnabas_cleaner_runs", "Cleanings that ended well", figures.runs)
    yield counter("barnabas_cleaner_bytes_read", "Bytes that these read", figures.bytes_read)
    yield counter("barnabas_cleaner_bytes_written", "Bytes that these wrote", figures.bytes_written)
    yield from _uncleanable_families(cleaner, directories)
    yield from _run_families(cleaner)


def _uncleanable_families(cleaner: Cleaner, directories: LogDirectories) -> Iterator[Metric]:
    partitions = GaugeMetricFamily(
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        "Logs that are cleaned no more until a restart",
        labels=("logDirectory",),
    )
    size = GaugeMetricFamily(
        "kafka_log_logcleanermanager_uncleanable_bytes", "Bytes of these logs", labels=("logDirectory",)
    )
    found = [(directory.path, member.size_bytes) for directory, member, _ in cleaner.uncleanable()]
    for path in directories.paths():
        sizes = [member_bytes for at, member_bytes in found if at == path]
        partitions.add_metric((path,), len(sizes))
        size.add_metric((path,), sum(sizes))
    yield from (partitions, size)


def _run_families(cleaner: Cleaner) -> Iterator[Metric]:
    progress = GaugeMetricFamily(
        "barnabas_cleaner_progress", "How much of the cleaning under way is done, 0 to 1", labels=_PARTITION
    )
    ended = GaugeMetricFamily(
        "barnabas_cleaner_last_run_timestamp_seconds", "When a log was last cleaned", labels=_PARTITION
    )
    took = GaugeMetricFamily("barnabas_cleaner_last_run_seconds", "How long that took", labels=_PARTITION)
    read = GaugeMetricFamily("barnabas_cleaner_last_run_read_bytes", "Bytes that it read", labels=_PARTITION)
    written = GaugeMetricFamily("barnabas_cleaner_last_run_written_bytes", "Bytes that it kept", labels=_PARTITION)
    for (topic, number), run in sorted(cleaner.runs.items()):
        labels = (topic, str(number))
        if run.state == RUNNING:
            progress.add_metric(labels, run.progress)
        elif run.state == CLEANED:
            ended.add_metric(labels, run.ended_ms / 1000)
            took.add_metric(labels, run.duration_ms / 1000)
            read.add_metric(labels, run.bytes_read)
            written.add_metric(labels, run.bytes_written)
    yield from (progress, ended, took, read, written)
