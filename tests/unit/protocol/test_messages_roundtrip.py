"""Every message of every version: there and back, cut off, and as garbage."""

import contextlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.protocol.compiler import decode, encode, encode_parts
from barnabas.protocol.messages import APIS
from barnabas.protocol.primitives import WireError
from barnabas.protocol.schema import Api
from tests.unit.protocol.message_strategies import EVERY_MESSAGE, messages

RELAXED = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

every_api = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name.lower())


def drawn(data: st.DataObject, api: Api) -> list[tuple[type[Any], int, Any]]:
    """One request and one response of each version."""
    return [
        (cls, version, data.draw(messages(cls, version), label=f"{cls.__name__} v{version}"))
        for version in api.versions
        for cls in (api.request, api.response)
    ]


@every_api
@RELAXED
@given(data=st.data())
def test_a_message_survives_the_round_trip(api: Api, data: st.DataObject) -> None:
    for cls, version, message in drawn(data, api):
        encoded = encode(message, version)
        behind = b"\x07" + encoded + b"\xff\xff\xff\xff"
        assert decode(cls, version, memoryview(bytearray(behind)), 1) == (message, 1 + len(encoded))
        assert b"".join(map(bytes, encode_parts(message, version, first=b"head"))) == b"head" + encoded


@every_api
@RELAXED
@given(data=st.data())
def test_a_proper_prefix_is_refused_with_a_typed_error(api: Api, data: st.DataObject) -> None:
    for cls, version, message in drawn(data, api):
        encoded = encode(message, version)
        if encoded:
            cut = data.draw(st.integers(0, len(encoded) - 1), label="cut")
            with pytest.raises(WireError):
                decode(cls, version, encoded[:cut])


@settings(max_examples=300, deadline=None)
@given(which=st.sampled_from(EVERY_MESSAGE), garbage=st.binary(max_size=60))
def test_garbage_is_a_message_or_a_typed_error(which: tuple[type[Any], int], garbage: bytes) -> None:
    cls, version = which
    try:
        _, end = decode(cls, version, garbage)
    except WireError:
        return
    assert end <= len(garbage)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), which=st.sampled_from(EVERY_MESSAGE))
def test_a_damaged_message_is_a_message_or_a_typed_error(data: st.DataObject, which: tuple[type[Any], int]) -> None:
    cls, version = which
    damaged = bytearray(encode(data.draw(messages(cls, version)), version) or b"\0")
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place : place + 4] = data.draw(st.binary(min_size=1, max_size=5))
    try:
        _, end = decode(cls, version, damaged)
    except WireError:
        return
    assert end <= len(damaged)


@pytest.mark.parametrize(
    "filler", [b"\x7f", b"\xff", b"\x80", b"\xff\xff\xff\xff\x07", b"\x00\x7f", b"\x02", b"\x00\x00\x00\x05"]
)
def test_no_count_makes_a_decoder_allocate_more_than_its_bytes_account_for(filler: bytes) -> None:
    hostile = (filler * 400)[:400]
    for cls, version in EVERY_MESSAGE:
        expect_little(cls, version, hostile[:1])  # compiles
        tracemalloc.start()
        try:
            expect_little(cls, version, hostile)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak_bytes < 200 * len(hostile), f"{cls.__name__} v{version}: {peak_bytes} bytes"


def expect_little(cls: type[Any], version: int, hostile: bytes) -> None:
    with contextlib.suppress(WireError):
        decode(cls, version, hostile)
