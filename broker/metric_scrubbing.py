"""Families that tell what was checked of the logs on disk, and what of them is damaged."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from barnabas.storage.scrubber import Scrubber
from broker.metric_exposition import counter
from replication.mending import Mender


def scrubbing_families(scrubber: Scrubber, mender: Mender) -> Iterator[Metric]:
    """The scrubber's and the mender's work since the start, and the damage that is known now."""
    count = scrubber.count
    yield counter("barnabas_scrub_checked_bytes", "Bytes of the logs whose checksums were checked", count.checked_bytes)
    yield counter("barnabas_scrub_passes", "Times that all logs of a directory were checked", count.passes)
    yield counter("barnabas_scrub_damaged_ranges", "Damaged ranges that were found", count.found)
    yield counter("barnabas_scrub_mended_ranges", "Damaged ranges that were fetched again", count.mended)
    yield counter("barnabas_scrub_resignations", "Partitions given up to another leader", mender.resigned)
    damaged = GaugeMetricFamily(
        "barnabas_log_damaged_ranges",
        "Ranges of a log that are damaged and not served",
        labels=["topic", "partition"],
    )
    for member in scrubber.damaged():
        topic, number = member.topic_partition
        damaged.add_metric([topic, str(number)], len(member.damage))
    yield damaged
