"""`barnabas produce` and `barnabas consume` against a small cluster."""

import json
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.client.partitioner import partition_of_key
from barnabas.protocol.batch import Codec, read_header
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from barnabas.protocol.records import Record, build_batch
from tests.unit.admin.conftest import Run
from tests.unit.client.small_cluster import Asked, SmallCluster

T0 = TopicPartition("t", 0)
LIMIT_S = 60
"""For a process to start and answer, also where others have the cores."""


def records(served: SmallCluster, partition: int = 0) -> list[Record]:
    return served.logs[TopicPartition("t", partition)].records()


def fill(served: SmallCluster, count: int = 10, partition: int = 0) -> None:
    for number in range(count):
        record = Record(0, 1_000_000 + number * 1000, b"k%d" % number, b"v%d" % number, (("h", b"\xff"),))
        served.logs[TopicPartition("t", partition)].append(build_batch([record]))


def test_lines_go_in_and_come_back(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t")
    text = b"one\n\ntwo \xff\r\n" + b"x" * 3_000_000 + b"\nlast without an end"
    assert on_cluster("produce", "t", stdin=text).status == 0
    assert [record.value for record in records(served)] == text.split(b"\n")
    ran = on_cluster("consume", "t", "--exit")
    assert (ran.status, ran.out) == (0, text + b"\n")


def test_nothing_to_send_sends_nothing(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t")
    assert on_cluster("produce", "t").status == 0
    assert served.logs[T0].batches == []
    assert on_cluster("consume", "t", "-e") == (0, b"", "")


def test_files_are_read_in_order(served: SmallCluster, on_cluster: Run, tmp_path: Path) -> None:
    served.add_topic("t")
    (tmp_path / "a").write_bytes(b"1\n2\n")
    (tmp_path / "b").write_bytes(b"3")
    assert on_cluster("produce", "t", str(tmp_path / "a"), "-", str(tmp_path / "b"), stdin=b"mid\n").status == 0
    assert [record.value for record in records(served)] == [b"1", b"2", b"mid", b"3"]
    assert on_cluster("produce", "t", "-i", "files", str(tmp_path / "a")).status == 0
    (tmp_path / "empty").touch()
    assert on_cluster("produce", "t", "-i", "files", str(tmp_path / "empty")).status == 0
    assert [record.value for record in records(served)][-2:] == [b"1\n2\n", b""]


def test_keys_headers_nulls_and_times(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t", 4)
    arguments = ("-K", "\\t", "-H", "a=1", "-H", "a=2=3", "--null", "", "--timestamp", "@2026-11-21")
    assert on_cluster("produce", "t", *arguments, stdin=b"k\tv\tw\n\tnokey\nkey\t\n").status == 0
    found = {record.key: record for part in range(4) for record in records(served, part)}
    assert {key: record.value for key, record in found.items()} == {b"k": b"v\tw", None: b"nokey", b"key": None}
    assert list(found[b"k"].headers) == [("a", b"1"), ("a", b"2=3")]
    assert found[b"k"].timestamp == 1_795_219_200_000
    assert found[b"k"] in records(served, partition_of_key(b"k", 4))


def test_one_key_or_one_partition_for_all(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t", 4)
    on_cluster("produce", "t", "-k", "same", stdin=b"1\n2\n")
    assert [record.key for record in records(served, partition_of_key(b"same", 4))] == [b"same", b"same"]
    on_cluster("produce", "t", "-p", "3", "-D", "\\0", stdin=b"1\n\x002")
    assert [record.value for record in records(served, 3)][-2:] == [b"1\n", b"2"]
    ran = on_cluster("produce", "t", "-p", "4", stdin=b"1\n")
    assert (ran.status, "t has partitions 0 to 3, not 4; nothing was written" in ran.err) == (3, True)


@pytest.mark.parametrize("codec", Codec)
def test_codecs_and_acks(served: SmallCluster, on_cluster: Run, codec: Codec) -> None:
    served.add_topic("t")
    assert on_cluster("produce", "t", "-z", codec.name.lower(), "--acks", "1", stdin=b"1\n" * 100).status == 0
    assert read_header(served.logs[T0].batches[0]).codec is codec
    assert served.asked[-1].request.acks == 1
    assert on_cluster("consume", "t", "-e").out == b"1\n" * 100


def test_what_consume_prints_produce_reads(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t")
    served.add_topic("copy", 2)
    originals = [
        Record(0, 1000, "schlüssel".encode(), b"\xff\xfe", (("h", b"x"), ("h", None), ("b", b"\x80"))),
        Record(1, 2000, None, b""),
        Record(2, 3000, b"\x00\x80", None),
        Record(3, 4000, b"", b'{"a": "b"}\n'),
    ]
    served.logs[T0].append(build_batch(originals))
    printed = on_cluster("consume", "t", "-e", "-o", "jsonl")
    assert json.loads(printed.lines[0]) == {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp": 1000,
        "key": "schlüssel",
        "value_base64": "//4=",
        "headers": [{"key": "h", "value": "x"}, {"key": "h", "value": None}, {"key": "b", "value_base64": "gA=="}],
    }
    ran = on_cluster("produce", "copy", "-i", "jsonl", "--keep-partitions", stdin=printed.out)
    assert ran.status == 0
    copied = served.logs[TopicPartition("copy", 0)].records()
    assert [(r.timestamp, r.key, r.value, r.headers) for r in copied] == [
        (r.timestamp, r.key, r.value, r.headers) for r in originals
    ]


def test_json_lines_may_be_short(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t")
    lines = b'{"value": {"a": [1, "\xc3\xbc"]}}\n\n{"key": 5, "value": "x"}\n{"key": null}\n'
    assert on_cluster("produce", "t", "-i", "jsonl", "-k", "fallback", stdin=lines).status == 0
    assert [(record.key, record.value) for record in records(served)] == [
        (b"fallback", '{"a":[1,"ü"]}'.encode()),
        (b"5", b"x"),
        (None, None),
    ]


def test_the_partition_of_a_json_line_counts_only_where_it_is_asked_for(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t")
    line = b'{"value": "x", "partition": 7}'
    assert on_cluster("produce", "t", "-i", "jsonl", stdin=line).status == 0
    ran = on_cluster("produce", "t", "-i", "jsonl", "--keep-partitions", stdin=line)
    assert (ran.status, "t has partitions 0 to 0, not 7; nothing was written" in ran.err) == (3, True)
    assert len(records(served)) == 1


def test_a_topic_that_was_created_a_moment_ago_is_looked_for_twice(served: SmallCluster, on_cluster: Run) -> None:
    def create_after_first(asked: Asked) -> MetadataResponse | None:
        if asked.key is not ApiKey.METADATA or served.configs:
            return None
        answer = served._metadata(asked)
        served.add_topic("t")
        return answer

    served.on_request = create_after_first
    assert on_cluster("produce", "t", stdin=b"1\n").status == 0


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"nonsense", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"valeu": "x"}', "'valeu'"),
        (b'{"value_base64": "%"}', "not base64"),
        (b'{"value_base64": 5}', "not base64"),
        (b'{"value": "a", "value_base64": "YQ=="}', "exclude each other"),
        (b'{"headers": {"a": "b"}}', "not a list"),
        (b'{"headers": [{"value": "b"}]}', "a header is"),
        (b'{"headers": [{"key": "b", "x": 1}]}', "a header is"),
        (b'{"timestamp": "now"}', "timestamp is not a number"),
        (b'{"timestamp": true}', "timestamp is not a number"),
        (b'{"value": "\\ud800"}', "surrogate"),
        (b"\xff", "not JSON"),
    ],
)
def test_a_line_that_is_no_record_is_named_and_what_was_before_it_is_written(
    served: SmallCluster, on_cluster: Run, line: bytes, complaint: str
) -> None:
    served.add_topic("t")
    ran = on_cluster("produce", "t", "-i", "jsonl", stdin=b'{"value": "good"}\n' + line + b'\n{"value": "after"}\n')
    assert ran.status == 1
    assert "standard input, record 2: " in ran.err
    assert complaint in ran.err
    assert "1 record was written" in ran.err
    assert [record.value for record in records(served)] == [b"good"]


def test_a_line_without_the_separator_is_named(served: SmallCluster, on_cluster: Run, tmp_path: Path) -> None:
    served.add_topic("t")
    (tmp_path / "in").write_bytes(b"a:1\nb")
    ran = on_cluster("produce", "t", "-K", ":", str(tmp_path / "in"))
    assert (ran.status, "in, record 2: no key separator ':'; 1 record was written" in ran.err) == (1, True)


def test_a_summary_tells_offsets(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t", 2)
    fill(served, 3, partition=1)
    ran = on_cluster("produce", "t", "-p", "1", "-o", "json", stdin=b"1\n2\n")
    assert json.loads(ran.out) == {
        "topic": "t",
        "records": 2,
        "partitions": [{"partition": 1, "records": 2, "first_offset": 3, "last_offset": 4}],
    }


def test_a_missing_topic_is_not_found_and_not_created(served: SmallCluster, on_cluster: Run) -> None:
    for command in ("produce", "consume"):
        ran = on_cluster(command, "missing", stdin=b"1\n")
        assert ran.status == 3
    assert not any(asked.request.allow_auto_topic_creation for asked in served.asked if asked.key is ApiKey.METADATA)
    on_cluster("produce", "missing", "--auto-create", "--timeout", "0.2", stdin=b"1\n")
    assert any(asked.request.allow_auto_topic_creation for asked in served.asked if asked.key is ApiKey.METADATA)


def test_a_refused_record_fails_the_command(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t")

    def refuse(asked: Asked) -> ProduceResponse | None:
        if asked.key is not ApiKey.PRODUCE:
            return None
        answer = PartitionProduceResponse(0, ErrorCode.POLICY_VIOLATION, -1, error_message="not on a Sunday")
        return ProduceResponse([TopicProduceResponse("t", [answer])])

    served.on_request = refuse
    ran = on_cluster("produce", "t", "-p", "0", stdin=b"1\n")
    assert (ran.status, ran.err) == (1, "error: t-0: not on a Sunday (POLICY_VIOLATION)\n")


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        ("start:end", range(10)),
        (":end", range(10)),
        ("7:", range(7, 10)),
        ("-3", range(7, 10)),
        ("+8", range(8, 10)),
        ("2:4", range(2, 4)),
        ("4:4", range(0)),
        ("end", range(0)),
        ("@1003", range(3, 10)),
        ("@1003:1005", range(3, 5)),
        ("@9000", range(0)),
        ("@:1002", range(2)),
    ],
)
def test_offsets_choose_records(served: SmallCluster, on_cluster: Run, spec: str, numbers: range) -> None:
    served.add_topic("t")
    fill(served)
    ran = on_cluster("consume", "t", "--offset", spec, "--exit")
    assert (ran.status, ran.lines) == (0, [f"v{number}" for number in numbers])


def test_a_count_ends_it(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t")
    fill(served)
    assert on_cluster("consume", "t", "-n", "3").lines == ["v0", "v1", "v2"]


def test_partitions_and_topics_are_chosen(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t", 3)
    served.add_topic("u")
    for partition in range(3):
        fill(served, partition + 1, partition)
    served.logs[TopicPartition("u", 0)].append(build_batch([Record(0, 0, None, b"from u")]))
    assert sorted(on_cluster("consume", "t", "-e", "-p", "0", "-p", "1").lines) == ["v0", "v0", "v1"]
    assert sorted(on_cluster("consume", "t", "u", "-e").lines) == ["from u", "v0", "v0", "v0", "v1", "v1", "v2"]
    ran = on_cluster("consume", "t", "-p", "7", "-e")
    assert (ran.status, "partitions 0 to 2, not 7" in ran.err) == (3, True)


def test_lines_show_keys_and_nulls(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t")
    served.logs[T0].append(build_batch([Record(0, 0, b"k", None), Record(0, 0, None, b"v")]))
    assert on_cluster("consume", "t", "-e", "-K", ": ", "--null", "NULL").lines == ["k: NULL", "NULL: v"]
    assert on_cluster("consume", "t", "-e", "-D", "\\0").out == b"\0v\0"


def test_a_table_and_an_array(served: SmallCluster, on_cluster: Run) -> None:
    served.add_topic("t")
    served.logs[T0].append(build_batch([Record(0, 1_795_219_200_123, b"k\n", b"\xff"), Record(0, -1, None, b"v")]))
    heading, first, second = on_cluster("consume", "t", "-e", "-o", "table").lines
    assert heading.split() == ["PARTITION", "OFFSET", "TIME", "KEY", "VALUE"]
    assert first.split() == ["t-0", "0", "2026-11-21T00:00:00.123Z", "k\\n", "\\xff"]
    assert second.split() == ["t-0", "1", "-", "-", "v"]
    array = json.loads(on_cluster("consume", "t", "-e", "-o", "json").out)
    assert [each["offset"] for each in array] == [0, 1]
    assert json.loads(on_cluster("consume", "t", "-O", "end", "-e", "-o", "json").out) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("consume", "t", "--offset", "soon"),
        ("consume", "t", "--offset", "5:2"),
        ("consume", "t", "-n", "0"),
        ("consume",),
        ("produce",),
        ("produce", "t", "-K", ":", "-k", "x"),
        ("produce", "t", "-K", ":", "-i", "jsonl"),
        ("produce", "t", "-K", ""),
        ("produce", "t", "-D", ""),
        ("produce", "t", "-i", "files"),
        ("produce", "t", "--keep-partitions"),
        ("produce", "t", "--timestamp", "soon"),
        ("produce", "t", "-z", "brotli"),
        ("produce", "t", "-z", "snappy", "--level", "3"),
        ("produce", "t", "-z", "gzip", "--level", "10"),
        ("produce", "t", "-H", "nonsense"),
        ("produce", "t", "--acks", "2"),
    ],
)
def test_wrong_usage_has_its_status(run: Run, arguments: tuple[str, ...]) -> None:
    assert run(*arguments).status == 2


def test_a_missing_file_is_not_found(served: SmallCluster, on_cluster: Run, tmp_path: Path) -> None:
    served.add_topic("t")
    ran = on_cluster("produce", "t", str(tmp_path / "missing"))
    assert (ran.status, "no such file" in ran.err) == (3, True)


@pytest.fixture
def spawn(served: SmallCluster) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start commands as processes with pipes; whatever is left of them at the end is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def call(*arguments: str) -> subprocess.Popen[bytes]:
        address = f"127.0.0.1:{served.ports[1]}"
        command = [sys.executable, "-m", "barnabas.admin.main", *arguments, "--bootstrap-server", address]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        started.append(process)
        return process

    # A shell lets what it starts in the background ignore SIGINT, and so would all that is started from there.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield call
    signal.signal(signal.SIGINT, before)
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def read_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], LIMIT_S)
    assert ready, f"nothing came in {LIMIT_S} s"
    return process.stdout.readline()


def test_a_pipe_is_sent_as_it_comes_and_followed(
    served: SmallCluster, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    served.add_topic("t")
    consumer, producer = spawn("consume", "t"), spawn("produce", "t")
    assert producer.stdin is not None
    for word in (b"first\n", b"second\n"):
        producer.stdin.write(word)
        producer.stdin.flush()
        assert read_line(consumer) == word
    producer.stdin.close()
    assert producer.wait(LIMIT_S) == 0
    consumer.send_signal(signal.SIGINT)
    assert consumer.wait(LIMIT_S) == 130


def test_a_reader_that_leaves_ends_it_quietly(
    served: SmallCluster, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    served.add_topic("t")
    served.logs[T0].append(build_batch([Record(0, 0, None, b"x" * 100)] * 20_000))
    consumer = spawn("consume", "t")
    assert read_line(consumer) == b"x" * 100 + b"\n"
    assert consumer.stdout is not None
    assert consumer.stderr is not None
    consumer.stdout.close()
    assert consumer.wait(LIMIT_S) == 0
    assert consumer.stderr.read() == b""


def test_dev_null_is_an_empty_input(served: SmallCluster) -> None:
    served.add_topic("t")
    command = [sys.executable, "-m", "barnabas.admin.main", "produce", "t", "-b", f"127.0.0.1:{served.ports[1]}"]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=LIMIT_S)
