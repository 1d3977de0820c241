"""Consumer groups that move to the target, and the comparison of both sides."""

import asyncio
import random
from pathlib import Path

import pytest

from barnabas.client import OffsetAndMetadata, Producer, ProducerOptions, TopicPartition, open_cluster
from barnabas.client.group_admin import GroupAdmin
from tests.pipeline.mirror.clusters import (
    Clusters,
    MirrorProcess,
    Sent,
    make_topic,
    mirror_config,
    read,
    source,
    write,
)
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.processes]


def commit(broker: BrokerProcess, group: str, offsets: dict[TopicPartition, int]) -> None:
    async def work() -> None:
        async with open_cluster(broker.bootstrap) as cluster:
            found = await GroupAdmin(cluster).commit(
                group, {at: OffsetAndMetadata(offset, -1, "a note") for at, offset in offsets.items()}
            )
            assert not any(found.values()), found

    asyncio.run(work())


def committed(broker: BrokerProcess, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    async def work() -> dict[TopicPartition, OffsetAndMetadata]:
        async with open_cluster(broker.bootstrap) as cluster:
            return await GroupAdmin(cluster).committed(group)

    return asyncio.run(work())


def test_a_group_goes_on_where_it_was(clusters: Clusters, name: str, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    make_topic(clusters.paris, name, 2)
    config = mirror_config(
        clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]), transaction_bytes=3000
    )
    mirror = MirrorProcess(tmp_path, config)
    for part in range(3):
        records = [Sent(None, b"%d" % (part * 1000 + at), partition=at % 2) for at in range(1000)]
        # Aborted ones and markers leave gaps, as do the mirror's own markers at the target.
        write(clusters.paris, name, records, batch_bytes=500, transactions=lambda number: number % 4 != 2)
        mirror.run()
    there = read(clusters.paris, name)
    config["translate"] = {"groups": [name], "execute": True}
    for _ in range(5):
        group = f"{name}-{draw.random()}"
        done = {at: draw.choice([each.offset for each in there if each.partition == at]) for at in range(2)}
        commit(clusters.paris, group, {TopicPartition(name, at): offset for at, offset in done.items()})
        config["translate"]["groups"] = [group]
        report = MirrorProcess(tmp_path, config, job="translate").run()
        assert all(move["exact"] for move in report["facts"]["moves"])
        found = committed(clusters.world, group)
        assert {each.metadata for each in found.values()} == {"a note"}
        left = read(clusters.world, f"paris.{name}", offsets={at.partition: each.offset for at, each in found.items()})
        assert [each.content for each in left] == [
            each.content for each in there if each.offset >= done[each.partition]
        ], "from there on all, and nothing that was read before"
        again = MirrorProcess(tmp_path, config, job="translate").run()
        assert again["counts"] == {"offsets_committed": 0, "offsets_kept": 2}


def test_where_keys_choose_a_group_misses_nothing(clusters: Clusters, name: str, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    make_topic(clusters.paris, name, 3)
    make_topic(clusters.world, f"paris.{name}", 2)
    config = mirror_config(
        clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]), transaction_bytes=2000
    )
    mirror = MirrorProcess(tmp_path, config)
    for part in range(4):
        records = [Sent(b"%d" % draw.randrange(100), b"%d" % (part * 500 + at)) for at in range(500)]
        write(clusters.paris, name, records, batch_bytes=300)
        mirror.run()
    there = read(clusters.paris, name)
    done = {at: draw.choice([each.offset for each in there if each.partition == at]) for at in range(2)}
    commit(clusters.paris, name, {TopicPartition(name, at): offset for at, offset in done.items()})
    config["translate"] = {"execute": True}
    MirrorProcess(tmp_path, config, job="translate").run()
    found = committed(clusters.world, name)
    left = {
        each.value
        for each in read(
            clusters.world, f"paris.{name}", offsets={at.partition: each.offset for at, each in found.items()}
        )
    }
    wanted = {each.value for each in there if each.offset >= done.get(each.partition, 0)}
    assert wanted <= left


def test_both_sides_are_compared_and_what_differs_is_named(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name, 2)
    make_topic(clusters.paris, f"{name}-keys", 3)
    make_topic(clusters.world, f"paris.{name}-keys", 2)
    make_topic(clusters.paris, f"{name}-compacted", 1, cleanup_policy="compact")
    topics = [name, f"{name}-keys", f"{name}-compacted"]
    config = mirror_config(clusters.world, "world", name, source(clusters.paris, "paris", topics=topics), verify=True)
    mirror = MirrorProcess(tmp_path, config)
    for part in range(2):
        for topic in topics:
            write(clusters.paris, topic, [Sent(b"%d" % at, b"%d %d" % (part, at)) for at in range(1000)])
        report = mirror.run()
        verified = report["facts"]["verified"]["paris"]
        assert [(verified[topic]["scope"], verified[topic]["records"]) for topic in topics] == [
            ("all", 1000 * (part + 1)),
            ("all", 1000 * (part + 1)),
            ("none", 0),
        ]
        assert not any(each["differences"] for each in verified.values())
    # Somebody else's records are none of the mirror's; what is written in its name is.
    write(clusters.world, f"paris.{name}", [Sent(b"k", b"of somebody else")])
    assert mirror.run()["status"] == "succeeded"
    twice = read(clusters.world, f"paris.{name}")[7]
    _write_in_the_name_of(clusters.world, f"barnabas-mirror-{name}-paris", f"paris.{name}", twice.key, twice.value)
    assert mirror.run_to_its_end() == 1
    assert "source and target differ" in mirror.output
    (difference,) = mirror.report["facts"]["verified"]["paris"][name]["differences"]
    assert f"and has too much at paris.{name}-{twice.partition}@" in difference


def _write_in_the_name_of(
    broker: BrokerProcess, transactional_id: str, topic: str, key: bytes | None, value: bytes | None
) -> None:
    async def work() -> None:
        options = ProducerOptions(transactional_id=transactional_id)
        async with (
            open_cluster(broker.bootstrap) as cluster,
            Producer(cluster, options=options) as producer,
            producer.transaction(),
        ):
            await producer.send(topic, key, value, timestamp=1_700_000_000_000)

    asyncio.run(work())
