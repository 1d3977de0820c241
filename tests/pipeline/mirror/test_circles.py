"""Mirrors in both directions: refused where it can be seen, and dropped where not; nothing goes round."""

from pathlib import Path

import pytest

from tests.pipeline.mirror.clusters import (
    Clusters,
    MirrorProcess,
    Sent,
    eventually,
    make_topic,
    mirror_config,
    partition_count,
    read,
    source,
    write,
)

pytestmark = [pytest.mark.processes]


def values(topic_at: object, topic: str) -> list[bytes | None]:
    return sorted(each.value or b"" for each in read(topic_at, topic))  # type: ignore[arg-type]


def test_a_way_back_is_refused_when_the_way_there_is_known(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name)
    write(clusters.paris, name, [Sent(None, b"from paris")])
    there = mirror_config(clusters.lima, "lima", name, source(clusters.paris, "paris", topics=[name]), naming="same")
    back = mirror_config(clusters.paris, "paris", name, source(clusters.lima, "lima", topics=[name]), naming="same")
    MirrorProcess(tmp_path / "there", there).run()
    refused = MirrorProcess(tmp_path / "back", back)
    assert refused.run_to_its_end() == 1
    assert (
        f"lima -> paris would go round in a circle ({name}: a mirror writes records of paris into it)" in refused.output
    )
    assert refused.report["status"] == "failed"
    assert values(clusters.paris, name) == [b"from paris"]


def test_a_way_over_a_third_cluster_is_refused(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name)
    write(clusters.paris, name, [Sent(None, b"from paris")])
    ways = [
        (clusters.paris, "paris", clusters.lima, "lima"),
        (clusters.lima, "lima", clusters.world, "world"),
        (clusters.world, "world", clusters.paris, "paris"),
    ]
    mirrors = [
        MirrorProcess(
            tmp_path / alias,
            mirror_config(to, to_alias, name, source(broker, alias, topics=[name]), naming="same", loops="drop"),
        )
        for broker, alias, to, to_alias in ways
    ]
    mirrors[0].run()
    mirrors[1].run()
    assert mirrors[2].run_to_its_end() == 1
    assert "it has records of paris that came over other clusters" in mirrors[2].output
    assert values(clusters.paris, name) == [b"from paris"]


def test_both_ways_at_once_every_record_is_everywhere_once(clusters: Clusters, name: str, tmp_path: Path) -> None:
    """Started together neither sees the other; with loops="drop" that is meant, and either way nothing goes round."""
    for broker, alias in ((clusters.paris, "paris"), (clusters.lima, "lima")):
        make_topic(broker, name, 2)
        write(broker, name, [Sent(b"%d" % at, b"%s %d" % (alias.encode(), at)) for at in range(1000)])
    both = sorted(b"%s %d" % (alias, at) for alias in (b"paris", b"lima") for at in range(1000))
    common = {"naming": "same", "loops": "drop", "mode": "continuous", "transaction_ms": 50}
    there = mirror_config(clusters.lima, "lima", name, source(clusters.paris, "paris", topics=[name]), **common)
    back = mirror_config(clusters.paris, "paris", name, source(clusters.lima, "lima", topics=[name]), **common)
    with MirrorProcess(tmp_path / "there", there) as first, MirrorProcess(tmp_path / "back", back) as second:
        first.start()
        second.start()
        eventually(lambda: len(read(clusters.paris, name)) >= 2000 and len(read(clusters.lima, name)) >= 2000, "all")
        write(clusters.paris, name, [Sent(None, b"last")])
        eventually(lambda: b"last" in values(clusters.lima, name), "the last one is there")
        assert first.stop() == 0, first.output
        assert second.stop() == 0, second.output
        dropped = first.report["counts"]["records_dropped_as_they_came_from_the_target"]
    # Whatever came back would be mirrored once more by these.
    counts = [
        MirrorProcess(tmp_path / "there", {**there, "mode": "catch_up"}).run()["counts"],
        MirrorProcess(tmp_path / "back", {**back, "mode": "catch_up"}).run()["counts"],
    ]
    assert not any(each.get("records") for each in counts)
    assert values(clusters.paris, name) == sorted([*both, b"last"])
    assert values(clusters.lima, name) == sorted([*both, b"last"])
    assert dropped + counts[0].get("records_dropped_as_they_came_from_the_target", 0) == 1000


def test_with_aliases_topics_that_came_from_the_target_are_left_out(
    clusters: Clusters, name: str, tmp_path: Path
) -> None:
    for broker in (clusters.paris, clusters.lima):
        make_topic(broker, name)
        write(broker, name, [Sent(None, b"v")])
    pattern = rf".*\b{name}"
    there = mirror_config(clusters.lima, "lima", name, source(clusters.paris, "paris", pattern=pattern))
    back = mirror_config(clusters.paris, "paris", name, source(clusters.lima, "lima", pattern=pattern))
    for _ in range(2):
        MirrorProcess(tmp_path / "there", there).run()
        report = MirrorProcess(tmp_path / "back", back).run()
    assert report["counts"]["topics_left_out"] == 1
    assert partition_count(clusters.lima, f"paris.{name}") == 1
    assert partition_count(clusters.paris, f"lima.{name}") == 1
    assert partition_count(clusters.paris, f"lima.paris.{name}") == 0
    assert partition_count(clusters.lima, f"paris.lima.{name}") == 0


def test_a_cluster_is_not_mirrored_into_itself(clusters: Clusters, name: str, tmp_path: Path) -> None:
    make_topic(clusters.paris, name)
    config = mirror_config(clusters.paris, "here", name, source(clusters.paris, "there", topics=[name]))
    mirror = MirrorProcess(tmp_path, config)
    assert mirror.run_to_its_end() == 1
    assert "there and here are one cluster" in mirror.output
