"""What goes wrong around a mirror: logs that are gone, two processes of one name, clusters that cannot be reached."""

import time
from pathlib import Path

import pytest

from tests.pipeline.mirror.clusters import (
    Clusters,
    MirrorProcess,
    Sent,
    add_partitions,
    delete_topic,
    eventually,
    make_topic,
    make_topic_again,
    mirror_config,
    partition_count,
    read,
    source,
    write,
)

pytestmark = [pytest.mark.processes]


def some(count: int, text: bytes = b"v") -> list[Sent]:
    return [Sent(None, b"%s %d" % (text, at), partition=0) for at in range(count)]


def test_a_topic_that_was_made_anew_is_noticed(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name)
    write(clusters.paris, name, some(100, b"old"))
    config = mirror_config(clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]))
    mirror = MirrorProcess(tmp_path, config)
    mirror.run()
    delete_topic(clusters.paris, name)
    make_topic_again(clusters.paris, name)
    write(clusters.paris, name, some(150, b"new"))
    assert mirror.run_to_its_end() == 1
    assert f"{name}-0 at offset 100: the log is another one" in mirror.output
    assert len(read(clusters.world, f"paris.{name}")) == 100
    report = mirror.run(on_data_loss="continue")
    assert report["counts"]["losses"] == 1
    arrived = [each.value for each in read(clusters.world, f"paris.{name}")]
    assert arrived == [b"old %d" % at for at in range(100)] + [b"new %d" % at for at in range(150)]
    assert "losses" not in mirror.run(on_data_loss="fail")["counts"]


def test_a_topic_that_is_gone_is_noticed_and_may_come_back(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name)
    write(clusters.paris, name, some(10, b"old"))
    config = mirror_config(clusters.world, "world", name, source(clusters.paris, "paris", pattern=name))
    mirror = MirrorProcess(tmp_path, config)
    mirror.run()
    delete_topic(clusters.paris, name)
    eventually(lambda: partition_count(clusters.paris, name) == 0, "it is gone")
    assert mirror.run_to_its_end() == 1
    assert f"{name}-0 at offset 10: the partition is gone" in mirror.output
    assert mirror.run(on_data_loss="continue")["counts"]["losses"] == 1
    assert "losses" not in mirror.run()["counts"], "told once"
    make_topic_again(clusters.paris, name)
    write(clusters.paris, name, some(10, b"new"))
    mirror.run()
    assert len(read(clusters.world, f"paris.{name}")) == 20


def test_what_retention_was_faster_with_is_noticed(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name, retention_ms="1000", segment_bytes="20000")
    write(clusters.paris, name, some(10))
    config = mirror_config(clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]))
    config["topics"] = {"copied": []}
    mirror = MirrorProcess(tmp_path, config)
    mirror.run()
    write(clusters.paris, name, some(5000), batch_bytes=2000)
    eventually(lambda: not (left := read(clusters.paris, name)) or left[0].offset > 10, "retention acts")
    assert mirror.run_to_its_end() == 1
    assert f"{name}-0 at offset 10: the log starts at" in mirror.output
    assert mirror.run(on_data_loss="continue")["counts"]["losses"] == 1


def test_a_topic_that_is_not_there_is_refused_by_name(clusters: Clusters, name: str, tmp_path: Path) -> None:
    config = mirror_config(clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]))
    mirror = MirrorProcess(tmp_path, config)
    assert mirror.run_to_its_end() == 1
    assert f"paris has no topic {name}; create it, or take it from the list" in mirror.output


def test_a_target_that_changes_timestamps_is_refused(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name)
    make_topic(clusters.world, f"paris.{name}", message_timestamp_type="LogAppendTime")
    config = mirror_config(clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]))
    mirror = MirrorProcess(tmp_path, config)
    assert mirror.run_to_its_end() == 1
    assert f"topic paris.{name} has message.timestamp.type=LogAppendTime" in mirror.output


def test_append_times_of_the_source_are_kept(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name, message_timestamp_type="LogAppendTime")
    write(clusters.paris, name, some(500))
    config = mirror_config(clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]), verify=True)
    report = MirrorProcess(tmp_path, config).run()
    there, here = read(clusters.paris, name), read(clusters.world, f"paris.{name}")
    assert [each.content for each in here] == [each.content for each in there]
    assert min(each.timestamp for each in here) > 1_700_000_000_000
    assert report["counts"]["records_verified"] == 500


def test_the_second_process_of_a_name_takes_over(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name)
    config = mirror_config(
        clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]), mode="continuous"
    )
    with MirrorProcess(tmp_path / "first", config) as first, MirrorProcess(tmp_path / "second", config) as second:
        first.start()
        write(clusters.paris, name, some(10))
        eventually(lambda: len(read(clusters.world, f"paris.{name}")) == 10, "the first one works")
        second.start()
        written = 10

        def notices() -> bool:
            nonlocal written
            write(clusters.paris, name, some(1))
            written += 1
            return not first.is_running

        eventually(notices, "the first one ends")
        assert f"another process runs the mirror {name} now" in first.output
        eventually(lambda: len(read(clusters.world, f"paris.{name}")) == written, "the second one works")
        assert second.stop() == 0


def test_new_topics_and_partitions_are_mirrored_too(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, f"{name}-a", 1)
    write(clusters.paris, f"{name}-a", some(10))
    config = mirror_config(
        clusters.world,
        "world",
        name,
        source(clusters.paris, "paris", pattern=f"{name}-.*", exclude=".*-x"),
        mode="continuous",
        refresh_ms=300,
    )
    with MirrorProcess(tmp_path, config) as mirror:
        mirror.start()
        eventually(lambda: partition_count(clusters.world, f"paris.{name}-a") == 1, "the topic is there")
        for topic in (f"{name}-b", f"{name}-x"):
            make_topic(clusters.paris, topic, 2)
            write(clusters.paris, topic, some(10))
        eventually(lambda: len(read(clusters.world, f"paris.{name}-b")) == 10, "the new topic")
        add_partitions(clusters.paris, f"{name}-a", 3)
        write(clusters.paris, f"{name}-a", [Sent(None, b"third", partition=2)])
        eventually(lambda: partition_count(clusters.world, f"paris.{name}-a") == 3, "new partitions")
        eventually(lambda: len(read(clusters.world, f"paris.{name}-a")) == 11, "their records")
        assert mirror.stop() == 0, mirror.output
    assert read(clusters.world, f"paris.{name}-a")[-1].partition == 2
    assert partition_count(clusters.world, f"paris.{name}-x") == 0


def test_bytes_go_no_faster_than_they_may(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name)
    write(clusters.paris, name, [Sent(None, b"x" * 1000) for _ in range(3000)], batch_bytes=20_000)
    config = mirror_config(
        clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]), bytes_per_second=1_000_000
    )
    config["sources"][0]["options"] = {"kafka.max.partition.fetch.bytes": "100000"}
    began = time.monotonic()
    report = MirrorProcess(tmp_path, config).run()
    assert time.monotonic() - began > 2
    assert report["counts"]["records"] == 3000


def test_a_target_that_is_away_for_a_while_is_waited_for(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name, 2)
    write(clusters.paris, name, some(100))
    config = mirror_config(
        clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]), mode="continuous"
    )
    with MirrorProcess(tmp_path, config) as mirror:
        mirror.start()
        eventually(lambda: len(read(clusters.world, f"paris.{name}")) == 100, "it works")
        clusters.world.kill()
        write(clusters.paris, name, some(200))
        time.sleep(1)
        clusters.world.start()
        eventually(lambda: len(read(clusters.world, f"paris.{name}")) >= 300, "it goes on")
        assert mirror.stop() == 0, mirror.output
    assert len(read(clusters.world, f"paris.{name}")) == 300


@pytest.mark.parametrize(
    ("options", "told"),
    [({"kafka.compression.type": "zstd"}, "no such setting acts in this client"), ({}, "clusters cannot be asked")],
)
def test_a_cluster_that_cannot_be_asked_is_told(
    clusters: Clusters, name: str, tmp_path: Path, options: dict[str, str], told: str
) -> None:
    config = mirror_config(clusters.world, "world", name, source(clusters.paris, "paris", topics=[name]))
    config["sources"][0] |= {"bootstrap_servers": "127.0.0.1:1", "options": options}
    mirror = MirrorProcess(tmp_path, config)
    assert mirror.run_to_its_end() == 1
    assert told in mirror.output
