"""Old message formats and Kafka's own classes: the capture that quick tests use, and Kafka reading what we build."""

from pathlib import Path

import pytest

from barnabas.protocol.batch import Codec
from barnabas.protocol.entry_builder import EntryBuilder
from barnabas.protocol.records import Record
from tests.support.java import compile_java, run_java
from tests.support.kafka_jars import BROKER_JARS, JarsNotAvailable, class_path
from tests.unit.storage.old_formats_of_kafka import CAPTURED, Append, captured, content

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

SOURCE = Path(__file__).parent / "java" / "OldFormats.java"
KINDS = ("set ", "append ", "fetch ", "records")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> str:
    try:
        jars = class_path(BROKER_JARS)
    except JarsNotAvailable as error:
        pytest.skip(str(error))
    return compile_java(SOURCE, jars=jars, output=tmp_path_factory.mktemp("old-formats"))


def run(compiled: str, *arguments: str) -> str:
    """What the program prints, without what its libraries warn of."""
    lines = run_java(compiled, "OldFormats", arguments).splitlines()
    return "".join(f"{line}\n" for line in lines if line.startswith(KINDS))


def test_the_capture_is_what_kafka_makes_of_these_sets(compiled: str) -> None:
    again, kept = list(captured(run(compiled))), list(captured(CAPTURED.read_text()))
    assert len(again) == len(kept) > 500
    for new, old in zip(again, kept, strict=True):
        assert (new.name, content(new.data)) == (old.name, content(old.data))
        if isinstance(new, Append):
            assert isinstance(old, Append)
            assert (new.error, new.max_timestamp, new.count) == (old.error, old.max_timestamp, old.count)
            assert content(new.stored) == content(old.stored), old
        else:
            assert not isinstance(old, Append)
            assert content(new.given) == content(old.given), old


def test_kafka_reads_what_we_build_of_every_format_and_codec(compiled: str, tmp_path: Path) -> None:
    records = [
        Record(70 + 3 * index, 1000 + index * 7 % 5, None if index % 4 == 1 else b"key %d" % index, bytes(index * 60))
        for index in range(60)
    ]
    records[5].value = None
    sets, expected = [], []
    for magic in (0, 1, 2):
        for codec in Codec:
            if magic < 2 and codec is Codec.ZSTD:
                continue
            for append_time in (None, 9000):
                builder = EntryBuilder(magic=magic, codec=codec, log_append_time_ms=append_time)
                builder.add(records)
                sets.append(builder.finish().hex())
                time = append_time if magic else -1
                expected.append("records" + "".join(shown(record, time) for record in records) + "\n")
    file = tmp_path / "sets"
    file.write_text("\n".join(sets))
    assert run(compiled, str(file)) == "".join(expected)


def shown(record: Record, time: int | None) -> str:
    key, value = ("null" if part is None else part.hex() for part in (record.key, record.value))
    return f" {record.offset}:{record.timestamp if time is None else time}:{key}:{value}"
