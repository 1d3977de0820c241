"""Checksums of records: equal to a plain computation of what the module says, whatever the arrays look like."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.columns import checksums
from barnabas.pipeline.columns.checksums import (
    content_checksums,
    content_checksums_of,
    place_checksums,
    sums_by_group,
    total,
)

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
OCTETS = st.none() | st.binary(max_size=40)
RECORDS = st.lists(st.tuples(OCTETS, OCTETS), max_size=30)


def mixed(word: int) -> int:
    word &= MASK
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & MASK
    return word ^ (word >> 31)


def plain(octets: bytes | None) -> int:
    if octets is None:
        return 0xA0761D6478BD642F
    words = [int.from_bytes(octets[at : at + 8], "little") for at in range(0, len(octets), 8)]
    return mixed(sum(mixed(word ^ (at * GOLDEN & MASK)) for at, word in enumerate(words, 1)) + len(octets) * GOLDEN)


def plain_record(key: bytes | None, value: bytes | None) -> int:
    return mixed(plain(key) * 0xBF58476D1CE4E5B9 + plain(value) + GOLDEN)


def arrays(records: Sequence[tuple[bytes | None, bytes | None]], kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    return pa.array([key for key, _ in records], kind), pa.array([value for _, value in records], kind)


@given(RECORDS, st.integers(1, 12), st.sampled_from([pa.binary(), pa.large_binary()]))
def test_arrays_and_bytes_have_the_checksums_of_a_plain_computation(
    records: list[tuple[bytes | None, bytes | None]], words_at_once: int, kind: pa.DataType
) -> None:
    wanted = [plain_record(key, value) for key, value in records]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksums, "_WORDS_AT_ONCE", words_at_once)
        keys, values = arrays(records, kind)
        assert content_checksums(keys, values).tolist() == wanted
        assert content_checksums(keys[1:], values[1:]).tolist() == wanted[1:]
        assert content_checksums_of([key for key, _ in records], [value for _, value in records]).tolist() == wanted


def test_what_was_written_once_is_found_again() -> None:
    """These stand in tables and topics."""
    known = content_checksums_of([b"anna", None, b""], [b"a value that is longer than a word", b"", None])
    assert [f"{each:016x}" for each in known.tolist()] == ["a81ad5affc4baeed", "ce2b13ea4505431a", "4396d60dbd8537af"]
    assert f"{int(place_checksums(np.array([7]), np.array([1_700_000_000_000]))[0]):016x}" == "6e0efc9d426d4fe1"


def test_a_record_larger_than_what_is_computed_at_once_is_like_any() -> None:
    value = bytes(range(256)) * 1200 + b"end"
    keys, values = arrays([(None, b"x"), (b"k", value), (None, b"y")], pa.binary())
    wanted = [plain_record(None, b"x"), plain_record(b"k", value), plain_record(None, b"y")]
    assert content_checksums(keys, values).tolist() == wanted


def test_texts_count_as_their_bytes() -> None:
    keys, values = pa.array(["é", None], pa.string()), pa.array(["value", ""], pa.string())
    assert content_checksums(keys, values).tolist() == [
        plain_record("é".encode(), b"value"),
        plain_record(None, b""),
    ]


@pytest.mark.parametrize("pair", [(b"ab", b"c"), (b"a", b"bc"), (b"abc", b""), (b"", b"abc"), (b"c", b"ab")])
def test_what_is_moved_between_key_and_value_is_noticed(pair: tuple[bytes, bytes]) -> None:
    others = [(b"ab", b"c"), (b"a", b"bc"), (b"abc", b""), (b"", b"abc"), (b"c", b"ab")]
    sums = content_checksums_of([key for key, _ in others], [value for _, value in others]).tolist()
    assert sums.count(plain_record(*pair)) == 1


def test_words_that_change_places_or_both_lose_their_highest_bit_are_noticed() -> None:
    one, two = b"12345678", b"\x80" * 8
    values = [one + two, two + one, b"\x00" * 16, b"\x00" * 7 + b"\x80" + b"\x00" * 7 + b"\x80"]
    assert len(set(content_checksums_of([None] * 4, values).tolist())) == 4


def test_sums_are_of_any_order_and_count_what_is_there_twice() -> None:
    sums = content_checksums_of([b"a", b"b", b"a"], [b"1", b"2", b"1"])
    assert total(sums) == sum(map(int, sums)) & MASK
    assert total(sums) != total(sums[1:2])
    groups = sums_by_group(sums, np.array([1, 0, 1]), 3)
    assert groups.tolist() == [int(sums[1]), 2 * int(sums[0]) & MASK, 0]


def test_the_same_offset_at_another_time_is_another_place() -> None:
    places = place_checksums(np.array([1, 2, 1]), np.array([2, 1, 3]))
    assert len(set(places.tolist())) == 3
