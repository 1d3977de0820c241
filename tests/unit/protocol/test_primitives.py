"""Variable-length integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.primitives import (
    InvalidVarint,
    TruncatedMessage,
    read_uvarint,
    read_varint,
    read_varlong,
    uvarint,
    varint,
    varlong,
)

U32 = st.integers(0, 2**32 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (16384, "808001"),
        (2**21 - 1, "ffff7f"), (2**32 - 1, "ffffffff0f"),
    ],
)  # fmt: skip
def test_an_unsigned_integer_has_its_low_septets_first(value: int, encoded: str) -> None:
    assert uvarint(value).hex() == encoded
    assert read_uvarint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f")],
)
def test_a_signed_integer_is_zigzag(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded
    assert varlong(value).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(U32, I32, I64)
def test_an_integer_survives_the_round_trip(unsigned: int, narrow: int, wide: int) -> None:
    for value, write, read in ((unsigned, uvarint, read_uvarint), (narrow, varint, read_varint)):
        assert read(b"\xff" + write(value) + b"\xff", 1) == (value, 1 + len(write(value)))
    assert read_varlong(memoryview(varlong(wide)), 0) == (wide, len(varlong(wide)))


@given(I64)
def test_an_integer_that_is_cut_off_is_truncated(value: int) -> None:
    encoded = varlong(value)
    for end in range(len(encoded)):
        with pytest.raises(TruncatedMessage):
            read_varlong(encoded[:end], 0)


@pytest.mark.parametrize("encoded", ["8080808080", "ffffffffff", "808080808000", "ffffffff10", "8080808070"])
def test_an_integer_of_more_than_32_bits_is_refused(encoded: str) -> None:
    with pytest.raises(InvalidVarint):
        read_uvarint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["80808080808080808080", "ffffffffffffffffffff01", "ffffffffffffffffff02"])
def test_an_integer_of_more_than_64_bits_is_refused(encoded: str) -> None:
    with pytest.raises(InvalidVarint):
        read_varlong(bytes.fromhex(encoded), 0)


def test_padding_within_the_five_bytes_is_read_as_kafka_reads_it() -> None:
    assert read_uvarint(bytes.fromhex("8100"), 0) == (1, 2)
    assert read_uvarint(bytes.fromhex("8180808000"), 0) == (1, 5)
