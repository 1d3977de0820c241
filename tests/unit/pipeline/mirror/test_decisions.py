"""What a mirror decides: names, partitions, rates, cycles, and what its configuration must not say."""

from pathlib import Path

import pytest

from barnabas.client.partitioner import partition_of_key
from barnabas.pipeline.jobs.config import ConfigError, load_config
from barnabas.pipeline.mirror.config import MirrorConfig
from barnabas.pipeline.mirror.naming import has_been_at, is_internal, target_name, wanted_topics
from barnabas.pipeline.mirror.partition_rule import PartitionRule
from barnabas.pipeline.mirror.provenance import find_cycles, origins_after, read_upstream
from barnabas.pipeline.mirror.rate import ByteRate
from barnabas.pipeline.mirror.state_records import (
    MirrorState,
    ProducerKey,
    ProducerRecord,
    ProgressKey,
    ProgressRecord,
    RouteKey,
    RouteRecord,
    encode_key,
    encode_value,
)

SMALL = """
name = "m"
alias = "world"
[cluster]
bootstrap_servers = "w:9092"
[[sources]]
alias = "paris"
bootstrap_servers = "p:9092"
topics = ["t"]
"""


def loaded(tmp_path: Path, text: str = SMALL, *overrides: str) -> MirrorConfig:
    path = tmp_path / "mirror.toml"
    path.write_text(text)
    return load_config(path, overrides, MirrorConfig)


def test_a_small_configuration_is_enough(tmp_path: Path) -> None:
    config = loaded(tmp_path)
    assert (config.naming, config.mode, config.engine, config.loops) == ("alias", "continuous", "client", "refuse")
    assert config.sources[0].cluster.bootstrap_servers == "p:9092"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ('name="a b"', "name='a b' must have letters"),
        ('alias="paris"', "alias='paris' names two clusters"),
        ("transaction_ms=0", "transaction_ms=0 must be greater than 0"),
        ("transaction_ms=40000", "transaction_ms=40000 must be at most 30000"),
        ('separator="/"', "separator='/' cannot stand in the name of a topic"),
        ("sources=[]", "sources is empty"),
        ('topics.configs={"message.timestamp.type"="LogAppendTime"}', "message.timestamp.type cannot be set"),
        ("bytes_per_secnd=7", "bytes_per_secnd"),
        ('naming="plain"', "naming"),
        ('checkpoint="c"', "checkpoint='c' acts with engine='spark'"),
        ('engine="spark"', "engine='spark' needs checkpoint"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, change: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, SMALL, change)
    assert told in str(refused.value)


@pytest.mark.parametrize("more", ['loops="drop"', "verify=true", "bytes_per_second=7"])
def test_what_spark_cannot_do_is_refused(tmp_path: Path, more: str) -> None:
    with pytest.raises(ConfigError, match="acts with engine='client' alone"):
        loaded(tmp_path, SMALL, 'engine="spark"', 'checkpoint="c"', more)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "paris: give either topics, a list of names, or pattern"),
        ('topics = ["t"]\npattern = "t.*"', "paris: give either topics, a list of names, or pattern"),
        ('pattern = "("', "paris: pattern='(' is no regular expression"),
        ('pattern = "t"\nexclude = "*"', "paris: exclude='*' is no regular expression"),
    ],
)
def test_a_source_says_which_topics(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, SMALL.replace('topics = ["t"]', line))
    assert told in str(refused.value)


def test_names_tell_where_a_topic_has_been() -> None:
    assert target_name("t", "paris", naming="alias", separator=".") == "paris.t"
    assert target_name("t", "paris", naming="same", separator=".") == "t"
    assert has_been_at("world.t", "world", ".")
    assert has_been_at("paris.world.t", "world", ".")
    assert not has_been_at("world", "world", ".")
    assert not has_been_at("t.world", "world", ".")
    assert not has_been_at("worldly.t", "world", ".")


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "barnabas-mirror-state", "barnabas-mirror-offsets", "mm2-x.internal"]
)
def test_internal_topics_are_known(topic: str) -> None:
    assert is_internal(topic)
    assert not is_internal(f"a{topic}")


def test_topics_are_chosen_by_name_or_by_pattern() -> None:
    found = ["orders", "orders-old", "visits", "__consumer_offsets", "barnabas-mirror-state"]
    assert wanted_topics(found, topics=["visits", "gone"], pattern=None, exclude=None) == (["visits"], ["gone"])
    assert wanted_topics(found, topics=[], pattern="orders.*", exclude=".*-old") == (["orders"], [])
    assert wanted_topics(found, topics=[], pattern=".*", exclude=None) == (["orders", "orders-old", "visits"], [])
    assert wanted_topics(found, topics=[], pattern="order", exclude=None) == ([], [])


def test_partitions_are_mapped_one_to_one_or_by_key() -> None:
    same, fewer, one = PartitionRule(4, 4), PartitionRule(4, 3), PartitionRule(4, 1)
    assert [same.fixed(each) for each in range(4)] == [0, 1, 2, 3]
    assert [fewer.fixed(each) for each in range(4)] == [None] * 4
    assert [one.fixed(each) for each in range(4)] == [0] * 4
    assert same.target_of(2, b"k", partition_of_key) == 2
    for partition in range(4):
        for key in (b"k", b""):
            assert fewer.target_of(partition, key, partition_of_key) == partition_of_key(key, 3)
        assert fewer.target_of(partition, None, partition_of_key) == partition % 3
    assert (same.name, fewer.name) == ("same", "key")


def test_bytes_go_at_their_rate() -> None:
    rate = ByteRate(1000)
    assert rate.delay_ms(1000, 0) == 0, "a second's worth at once"
    assert rate.delay_ms(500, 0) == 500
    assert rate.delay_ms(500, 500) == 500
    assert rate.delay_ms(1, 60_000) == 0
    assert rate.delay_ms(999, 60_000) == 0, "what was not used is not saved up"
    assert rate.delay_ms(1, 60_000) == 1
    assert ByteRate(None).delay_ms(1 << 40, 0) == 0


def route(cluster: str, target: str, *origins: str) -> RouteRecord:
    return RouteRecord(
        cluster=cluster, target=target, origins=sorted({cluster, *origins}), source_partitions=1, target_partitions=1
    )


def test_cycles_are_found_over_one_and_over_several_clusters() -> None:
    upstream = read_upstream(
        [ProducerRecord(cluster="B", incarnation="x", producer_ids=[7, 8])],
        {RouteKey("m", "b", "t"): route("B", "t"), RouteKey("m", "c", "u"): route("C", "u", "A")},
    )
    assert [(each.topic, each.is_direct) for each in find_cycles(["t", "u", "v"], upstream, "B")] == [("t", True)]
    assert [(each.topic, each.is_direct) for each in find_cycles(["t", "u", "v"], upstream, "A")] == [("u", False)]
    assert find_cycles(["t", "u", "v"], upstream, "D") == []
    assert origins_after("u", upstream, "X") == {"A", "C", "X"}
    assert origins_after("v", upstream, "X") == {"X"}
    assert upstream.foreign_producers("B") == {7, 8}
    assert upstream.foreign_producers("C") == frozenset()


def test_the_state_is_what_its_records_say() -> None:
    state = MirrorState()
    owner = ProducerRecord(cluster="B", incarnation="x", producer_ids=[7])
    first, later = ProgressRecord(begin=0, offset=5), ProgressRecord(begin=0, offset=9, behind={"0": 3})
    for key, value in (
        (ProducerKey("m", "b"), owner),
        (ProgressKey("m", "b", "t", 0), first),
        (ProgressKey("m", "b", "t", 1), first),
        (ProgressKey("m", "c", "t", 0), first),
        (ProgressKey("m", "b", "t", 0), later),
        (RouteKey("m", "b", "t"), route("B", "b.t")),
    ):
        state.apply(encode_key(key), encode_value(value))
    state.apply(encode_key(ProgressKey("m", "b", "t", 1)), None)
    for key, value in ((None, b"{}"), (b"junk", b"{}"), (encode_key(ProgressKey("m", "b", "t", 0)), b"junk")):
        state.apply(key, value)
    assert state.progress_of("m", "b") == {("t", 0): later}
    assert state.progress_of("n", "b") == {}
    assert state.routes_of("m", "b") == {"t": route("B", "b.t")}
    assert state.producers == {ProducerKey("m", "b"): owner}
