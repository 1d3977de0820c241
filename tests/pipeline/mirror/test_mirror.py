"""Mirrors as processes between clusters of one broker: what arrives, once and in order, whatever happens."""

import random
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

from barnabas.client import Codec
from barnabas.client.partitioner import partition_of_key
from tests.pipeline.mirror.clusters import (
    Clusters,
    MirrorProcess,
    Seen,
    Sent,
    make_topic,
    mirror_config,
    partition_count,
    read,
    source,
    write,
)
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.processes]

KILLS = 8


def by_partition(records: list[Seen]) -> dict[int, list[tuple[object, ...]]]:
    found: dict[int, list[tuple[object, ...]]] = defaultdict(list)
    for each in records:
        found[each.partition].append(each.content)
    return found


def test_records_arrive_as_they_are(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name, 3, retention_ms="-1", max_message_bytes="2000000")
    records = [
        Sent(
            None if number % 7 == 0 else b"key %d" % number,
            None if number % 11 == 0 else b"value %d " % number * 20,
            partition=number % 3,
            timestamp=1_600_000_000_000 + number * 1000,
            headers=(("h", b"%d" % number), ("n", None)) if number % 5 == 0 else (),
        )
        for number in range(3000)
    ]
    for number, codec in enumerate(Codec):
        write(clusters.paris, name, records[number * 600 : (number + 1) * 600], codec=codec)
    config = mirror_config(clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]))
    report = MirrorProcess(tmp_path, config).run()
    target = f"paris.{name}"
    assert partition_count(clusters.world, target) == 3
    assert by_partition(read(clusters.world, target)) == by_partition(read(clusters.paris, name))
    assert report["counts"]["records"] == 3000
    assert report["counts"]["batches_passed_whole"] > 0
    again = MirrorProcess(tmp_path, config).run()
    assert "records" not in again["counts"] or again["counts"]["records"] == 0
    assert len(read(clusters.world, target)) == 3000


def test_aborted_records_and_gaps_do_not_arrive(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name, 1)
    records = [Sent(None, b"%d" % number * 30) for number in range(2000)]
    write(clusters.paris, name, records, transactions=lambda number: number % 3 != 1)
    config = mirror_config(clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]))
    MirrorProcess(tmp_path, config).run()
    arrived = [each.content for each in read(clusters.world, f"paris.{name}")]
    assert arrived == [each.content for each in read(clusters.paris, name)]
    assert len(arrived) == 1300


@pytest.mark.parametrize("counts", [(3, 5), (5, 2), (4, 1)])
def test_where_partitions_differ_a_key_is_in_one_and_order_holds(
    clusters: Clusters, name: str, tmp_path: Path, counts: tuple[int, int]
) -> None:
    make_topic(clusters.paris, name, counts[0])
    make_topic(clusters.world, f"paris.{name}", counts[1])
    records = [Sent(b"key %d" % (number % 50) if number % 9 else None, b"%d" % number) for number in range(5000)]
    write(clusters.paris, name, records)
    config = mirror_config(clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]))
    MirrorProcess(tmp_path, config).run()
    there, here = read(clusters.paris, name), read(clusters.world, f"paris.{name}")
    assert sorted(each.content for each in here if each.key) == sorted(each.content for each in there if each.key)
    assert len(here) == 5000
    came_from = {each.value: each.partition for each in there}
    last: dict[tuple[int, int], int] = {}
    for each in here:
        origin = came_from[each.value]
        wanted = origin % counts[1] if each.key is None else partition_of_key(each.key, counts[1])
        assert each.partition == wanted
        assert last.get((origin, each.partition), -1) < int(each.value or b"")
        last[origin, each.partition] = int(each.value or b"")


class Feeder(threading.Thread):
    """Writes records into a topic of each source, a little at a time, until that is enough."""

    def __init__(self, topic: str, brokers: dict[str, BrokerProcess], random: random.Random) -> None:
        super().__init__()
        self._topic, self._brokers, self._random = topic, brokers, random
        self.is_enough = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            written = 0
            while not self.is_enough.is_set():
                size = self._random.choice([1, 20, 100])
                for alias, broker in self._brokers.items():
                    records = [
                        Sent(b"%d" % (number % 97), b"%s %d " % (alias.encode(), number) * self._random.choice([1, 9]))
                        for number in range(written, written + size)
                    ]
                    write(broker, self._topic, records, codec=self._random.choice(list(Codec)))
                written += size
        except BaseException as failure:
            self.failure = failure
            raise


def test_killed_again_and_again_it_mirrors_everything_once_and_in_order(
    clusters: Clusters, name: str, tmp_path: Path, seed: int
) -> None:
    """Several sources go into one topic while they are written to; the mirror is killed wherever it is."""
    draw = random.Random(seed)
    brokers = {"paris": clusters.paris, "lima": clusters.lima}
    for broker in brokers.values():
        make_topic(broker, name, 3)
    config = mirror_config(
        clusters.world,
        "world",
        name,
        *(source(broker, alias, topics=[name]) for alias, broker in brokers.items()),
        naming="same",
        mode="continuous",
        transaction_ms=50,
    )
    feeder = Feeder(name, brokers, random.Random(seed))
    with MirrorProcess(tmp_path, config) as mirror:
        feeder.start()
        try:
            for _ in range(KILLS):
                mirror.start()
                mirror.wait_for("records mirrored")
                time.sleep(draw.uniform(0.0, 1.0))
                mirror.kill()
        finally:
            feeder.is_enough.set()
            feeder.join()
        assert feeder.failure is None
        report = mirror.run(mode="catch_up")
    assert report["status"] == "succeeded"
    here = by_partition(read(clusters.world, name))
    for alias, broker in brokers.items():
        there = by_partition(read(broker, name))
        assert sum(map(len, there.values())) > 1000
        for partition, records in there.items():
            mine = [each for each in here[partition] if str(each[1]).startswith(f"b'{alias} ")]
            assert mine == records, f"{alias}, partition {partition}, after {KILLS} kills"
