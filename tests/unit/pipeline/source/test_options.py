"""Options of the source: Spark's names and rules, and a refusal by name for what does not act."""

import pytest

from barnabas.pipeline.given_options import OptionError
from barnabas.pipeline.source.options import SourceOptions, parse_batch_options, parse_stream_options
from barnabas.pipeline.source.subscription import (
    AtOffsets,
    AtTime,
    AtTimes,
    LogEdge,
    Partitions,
    TopicPattern,
    Topics,
)
from barnabas.protocol.ids import TopicPartition

SERVERS = {"kafka.bootstrap.servers": "one:9092"}
T0 = TopicPartition("t", 0)


def batch(**options: str) -> SourceOptions:
    return parse_batch_options({**SERVERS, "subscribe": "t", **options})


def stream(**options: str) -> SourceOptions:
    return parse_stream_options({**SERVERS, "subscribe": "t", **options})


def test_a_batch_reads_all_there_is_and_a_stream_what_comes() -> None:
    assert (batch().start, batch().end) == (LogEdge.EARLIEST, LogEdge.LATEST)
    assert stream().start is LogEdge.LATEST
    assert batch().fail_on_data_loss
    assert not batch().include_headers


def test_what_is_read_is_told_by_exactly_one_option() -> None:
    one = {
        "subscribe": Topics(("a", "b")),
        "subscribePattern": TopicPattern("a.*"),
        "assign": Partitions(frozenset({T0})),
    }
    texts = {"subscribe": "a, b,a", "subscribePattern": "a.*", "assign": '{"t":[0]}'}
    for name, text in texts.items():
        assert parse_batch_options({**SERVERS, name: text}).subscription == one[name]
        with pytest.raises(OptionError, match=r"names nothing|exactly"):
            parse_batch_options({**SERVERS, name: " " if name != "assign" else "{}"})
    for given in ({}, {"subscribe": "t", "assign": '{"t":[0]}'}):
        with pytest.raises(OptionError, match="exactly one of the options subscribe, subscribePattern, assign"):
            parse_batch_options({**SERVERS, **given})


def test_a_pattern_matches_whole_names() -> None:
    assert TopicPattern("a.c").matches("abc")
    assert not TopicPattern("a.c").matches("abcd")


def test_names_are_compared_without_case() -> None:
    parsed = parse_stream_options(
        {"KAFKA.bootstrap.SERVERS": "one:9092", "SUBSCRIBE": "T", "maxoffsetspertrigger": "5"}
    )
    assert (parsed.subscription, parsed.max_offsets_per_trigger) == (Topics(("T",)), 5)


def test_a_time_for_all_goes_before_times_and_times_before_offsets() -> None:
    offsets, times = {"startingOffsets": '{"t":{"0":7}}'}, {"startingOffsetsByTimestamp": '{"t":{"0":1000}}'}
    assert batch(**offsets).start == AtOffsets({T0: 7})
    assert batch(**offsets, **times).start == AtTimes({T0: 1000})
    assert batch(**offsets, **times, startingTimestamp="5").start == AtTime(5)
    assert batch(endingOffsets='{"t":{"0":-1}}').end == AtOffsets({T0: -1})
    assert batch(endingTimestamp="9").end == AtTime(9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets='latest': a batch query cannot start at the end"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "cannot start at the end"),
        ({"endingOffsets": "earliest"}, "endingOffsets='earliest': a batch query cannot end at the start"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "cannot end at the start"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger='5': it acts in streaming queries alone"),
        ({"fetchOffset.numRetries": "5"}, "it acts in streaming queries alone"),
        ({"kafka.request.timeout.ms": "2147483648"}, "it must be less than 2147483648"),
        ({"maxBatchBytes": "2000000000"}, "maxBatchBytes='2000000000': it is more than 1073741823"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "t-0 has -3"),
        ({"startingOffsets": '{"t":{"x":1}}'}, "'x', which is no number of a partition"),
        ({"startingOffsets": '{"t":{"0":true}}'}, "t-0 has True"),
        ({"startingOffsets": "{"}, "is not JSON"),
        ({"startingOffsets": "[]"}, "not of the form"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, "no time in milliseconds"),
        ({"startingTimestamp": "now"}, "startingTimestamp='now'"),
        ({"startingOffsetsByTimestampStrategy": "never"}, "must be error or latest"),
        ({"minPartitions": "0"}, "minPartitions='0': it must be greater than 0"),
        ({"failOnDataLoss": "maybe"}, "must be true or false"),
        ({"kafka.isolation.level": "serializable"}, "read_committed or read_uncommitted"),
        ({"kafka.security.protocol": "SASL_SSL"}, "PLAINTEXT only"),
        ({"kafka.group.id": "g"}, "no consumer group is used"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets"),
        ({"kafka.value.deserializer": "x"}, "cast them in the query"),
        ({"kafka.ssl.truststore.location": "x"}, "kafka.ssl.truststore.location='x': no such setting acts"),
        ({"subscribes": "x"}, "subscribes='x': no option of the source barnabas"),
        ({"path": "/t"}, "without a path"),
        ({"maxBytesInFlight": "100"}, "less than one answer"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_a_batch_refuses_by_name(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match="option") as refusal:
        batch(**options)
    assert said in str(refusal.value)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name}.*a streaming query has no end"):
        stream(**{name: "latest"})


def test_brokers_must_be_named() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        parse_batch_options({"subscribe": "t"})


def test_the_least_of_a_trigger_is_not_more_than_the_most() -> None:
    assert stream(minOffsetsPerTrigger="3", maxOffsetsPerTrigger="3").min_offsets_per_trigger == 3
    with pytest.raises(OptionError, match="minOffsetsPerTrigger='4': it is greater than maxOffsetsPerTrigger=3"):
        stream(minOffsetsPerTrigger="4", maxOffsetsPerTrigger="3")


@pytest.mark.parametrize(("text", "ms"), [("250ms", 250), ("2s", 2000), ("15m", 900_000), ("1 h", 3_600_000), ("7", 7)])
def test_a_delay_is_written_as_spark_writes_times(text: str, ms: int) -> None:
    assert stream(minOffsetsPerTrigger="5", maxTriggerDelay=text).max_trigger_delay_ms == ms


def test_what_would_not_act_beside_the_others_is_refused() -> None:
    with pytest.raises(OptionError, match="maxTriggerDelay='1s': it bounds the wait for minOffsetsPerTrigger"):
        stream(maxTriggerDelay="1s")
    with pytest.raises(OptionError, match="startingOffsetsByTimestampStrategy='latest': it acts where the query"):
        stream(startingOffsetsByTimestampStrategy="latest")
    assert stream(startingTimestamp="1", startingOffsetsByTimestampStrategy="latest").start_at_latest_without_record


def test_settings_of_the_client_act() -> None:
    parsed = batch(
        **{
            "kafka.isolation.level": "read_committed",
            "kafka.client.id": "me",
            "kafka.max.partition.fetch.bytes": "1000",
            "kafka.request.timeout.ms": "2000",
            "maxBytesInFlight": "3000",
            "rowsPerArrowBatch": "10",
        }
    )
    assert parsed.read_committed
    fetching = parsed.fetching
    assert (fetching.client_id, fetching.partition_max_bytes, fetching.request_timeout_ms) == ("me", 1000, 2000)
    assert (fetching.in_flight_bytes, fetching.rows_per_batch) == (3000, 10)
