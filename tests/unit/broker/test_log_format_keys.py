"""What compression.type and message.format.version do: from the text of the key to the bytes of the log."""

import pytest

from barnabas.protocol.batch import Codec
from barnabas.protocol.entries import iterate_entries
from barnabas.storage.log import Log
from tests.unit.broker.test_log_key_effects import Level, at_broker, at_topic, live, settings_of
from tests.unit.storage.logs import append, batch, make_log, read_bytes


@pytest.fixture
def make(tmp_path):
    def made(level: Level) -> Log:
        return make_log(str(tmp_path), settings_of(level).log)

    return made


def stored(log: Log) -> set[tuple[int, Codec]]:
    return {(header.magic, header.codec) for _, header in iterate_entries(read_bytes(log, 0))}


CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
    "producer": Codec.SNAPPY,
}


@pytest.mark.parametrize("text", CODECS)
@pytest.mark.parametrize("level", [at_broker, live, at_topic])
def test_records_are_compressed_as_the_log_says(make, level, text: str) -> None:
    log = make(level(compression_type=text))
    append(log, batch(b"a" * 100, codec=Codec.SNAPPY))
    assert stored(log) == {(2, CODECS[text])}


def test_a_broker_may_be_told_its_codec_in_any_case(make) -> None:
    log = make(at_broker(compression_type="GZip"))
    append(log, batch(b"a"))
    assert stored(log) == {(2, Codec.GZIP)}


@pytest.mark.parametrize(
    ("version", "magic"),
    [
        ("0.8.2", 0),
        ("0.9.0", 0),
        ("0.9.0.1", 0),
        ("0.10.0", 1),
        ("0.10.2-IV0", 1),
        ("0.11.0", 2),
        ("1.0", 2),
        ("2.7", 2),
    ],
)
@pytest.mark.parametrize("level", [at_broker, at_topic])
def test_records_are_written_in_the_format_of_the_version(make, level, version: str, magic: int) -> None:
    name = "log_message_format_version" if level is at_broker else "message_format_version"
    log = make(level(**{name: version}))
    append(log, batch(b"a", b"b"))
    assert stored(log) == {(magic, Codec.NONE)}
