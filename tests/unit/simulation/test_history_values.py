"""Values that say where they belong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history_values import Written, read_value, short_form, value_of

WRITTEN = Written(TopicPartition("t", 1), "p", 3, 17)


@pytest.mark.parametrize("size_bytes", [0, 60, 1000])
def test_a_value_tells_where_it_belongs(size_bytes: int) -> None:
    value = value_of(WRITTEN, size_bytes=size_bytes)
    assert len(value) >= size_bytes
    assert read_value(value) == WRITTEN


@given(place=st.integers(0, 99), bit=st.integers(0, 7))
def test_a_changed_value_is_not_read(place: int, bit: int) -> None:
    value = bytearray(value_of(WRITTEN, size_bytes=100))
    value[place] ^= 1 << bit
    assert read_value(bytes(value)) is None


@given(st.binary(max_size=60))
def test_bytes_of_another_kind_are_not_read(value: bytes) -> None:
    assert read_value(value) is None


def test_a_value_that_was_cut_is_not_read() -> None:
    value = value_of(WRITTEN, size_bytes=100)
    assert all(read_value(value[:length]) is None for length in range(100))


def test_the_short_form_drops_the_padding_of_whole_values_only() -> None:
    value = value_of(WRITTEN, size_bytes=1000)
    assert short_form(value) == value[: len(short_form(value))]
    assert len(short_form(value)) < 30
    assert short_form(value[:-1]) == value[:-1]
    assert short_form(value) != short_form(value_of(WRITTEN._replace(sequence=18), size_bytes=1000))
