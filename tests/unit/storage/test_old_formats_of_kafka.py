"""Conversions are what Kafka 2.7.2 makes of the same sets: byte for byte, or in what is compressed."""

import pytest

from barnabas.protocol.batch import Codec
from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.format_conversion import convert_down
from barnabas.protocol.steps import complete
from barnabas.storage.append_checks import AppendRejected
from barnabas.storage.append_conversion import Placing, convert
from barnabas.storage.log_config import LogConfig, TimestampType
from tests.unit.storage.old_formats_of_kafka import CAPTURED, Append, Fetch, captured, content

CASES = list(captured(CAPTURED.read_text()))
APPENDS = [case for case in CASES if isinstance(case, Append)]
FETCHES = [case for case in CASES if isinstance(case, Fetch)]
CODECS = {"producer": None, "none": Codec.NONE, "gzip": Codec.GZIP, "lz4": Codec.LZ4}
ERRORS = {
    "IllegalArgumentException": ErrorCode.UNKNOWN_SERVER_ERROR,
    "InvalidTimestampException": ErrorCode.INVALID_TIMESTAMP,
    "UnsupportedForMessageFormatException": ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
}


def convert_for(case: Append):
    config = LogConfig(
        message_format=case.format,
        compression=CODECS[case.codec],
        message_timestamp_type=TimestampType(case.time),
    )
    placing = Placing(config, base_offset=1000, leader_epoch=7, from_client=True, now_ms=5000)
    return complete(convert(memoryview(bytearray(case.data)), placing))


def test_the_capture_holds_all_of_them() -> None:
    assert (len(APPENDS), len(FETCHES)) == (20 * 24, 48)
    assert {case.error for case in APPENDS} == {None, *ERRORS}


@pytest.mark.parametrize("name", sorted({case.name for case in APPENDS}))
def test_what_is_appended_is_stored_as_by_kafka(name: str) -> None:
    for case in (case for case in APPENDS if case.name == name):
        what = (case.format, case.codec, case.time)
        if case.error is not None:
            with pytest.raises(AppendRejected) as refused:
                convert_for(case)
            assert refused.value.error is ERRORS[case.error], what
            continue
        made = convert_for(case)
        assert content(bytes(made.data)) == content(case.stored), what
        assert made.max_timestamp == case.max_timestamp, what
        assert made.headers[-1].next_offset == 1000 + case.count, what


@pytest.mark.parametrize("name", sorted({case.name for case in FETCHES}))
def test_what_is_fetched_is_converted_as_by_kafka(name: str) -> None:
    for case in (case for case in FETCHES if case.name == name):
        given = b"".join(
            complete(
                convert_down(
                    case.data,
                    position,
                    header,
                    to_magic=case.format,
                    first_offset=case.first_offset,
                    max_inflated_bytes=1 << 20,
                )
            ).data
            for position, header in iterate_entries(case.data)
        )
        assert content(given) == content(case.given), (case.format, case.first_offset)
