"""Topics of a small cluster for queries, and the options of these."""

from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record, build_batch
from tests.unit.client.small_cluster import SmallCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def fill(small: SmallCluster, part: TopicPartition, batches: int, *, each: int = 5, mark: str = "") -> None:
    """Batches of records with their offsets as timestamps; the mark makes other bytes of the same records."""
    for _ in range(batches):
        first = small.logs[part].end_offset
        records = [Record(at, first + at, None, f"{mark}{first + at}".encode()) for at in range(each)]
        small.logs[part].append(build_batch(records))


def make_anew(small: SmallCluster, part: TopicPartition, batches: int, *, mark: str = "other") -> None:
    """Delete a partition's log and write another one with the same number of records in each batch."""
    log = small.logs[part]
    log.batches.clear()
    log.end_offset = log.start_offset = 0
    fill(small, part, batches, mark=mark)


def delete_records(small: SmallCluster, part: TopicPartition, before: int) -> None:
    """Let a log start at the start of a batch of five."""
    log = small.logs[part]
    del log.batches[: (before - log.start_offset) // 5]
    log.start_offset = before


def options_of(small: SmallCluster, **options: str) -> dict[str, str]:
    bootstrap = {"kafka.bootstrap.servers": f"127.0.0.1:{small.ports[1]}", "kafka.default.api.timeout.ms": "3000"}
    reading = {} if {"subscribePattern", "assign"} & options.keys() else {"subscribe": "t"}
    return {**bootstrap, **reading, **options}
