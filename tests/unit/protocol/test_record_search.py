"""The search for a record by its age gives what reading all of them gives, in small steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.batch import HEADER_BYTES, Codec, InvalidRecord, read_header
from barnabas.protocol.record_search import Steps, search_by_age
from barnabas.protocol.records import Record, build_batch, iterate_records
from tests.support.bombs import MEBIBYTE, bomb_of_one_record

T0 = 1_600_000_000_000


def drain(steps: Steps) -> tuple[tuple[int, int] | None, int]:
    """What the search found, and in how many steps."""
    count = 1
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value, count
        count += 1


def search(data: bytes, *, least_age: int, least_delta: int = 0, count: int | None = None) -> Steps:
    header = read_header(data)
    return search_by_age(
        data[HEADER_BYTES:],
        header.codec,
        count=header.record_count if count is None else count,
        least_age=least_age,
        least_delta=least_delta,
        max_inflated_bytes=1 << 30,
    )


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.binary(max_size=300)), min_size=1, max_size=30),
    st.sampled_from(list(Codec)),
    st.integers(-60, 60),
    st.integers(0, 30),
)
def test_the_first_record_that_is_new_enough_is_found(
    made: list[tuple[int, bytes]], codec: Codec, least_age: int, least_delta: int
) -> None:
    data = build_batch([Record(0, T0 + age, b"k", value) for age, value in made], codec=codec)
    header = read_header(data)
    expected = next(
        (
            (record.offset, record.timestamp - header.first_timestamp)
            for record in iterate_records(data, 0, header, 1 << 20)
            if record.timestamp - header.first_timestamp >= least_age and record.offset >= least_delta
        ),
        None,
    )
    found, _ = drain(search(data, least_age=least_age, least_delta=least_delta))
    assert found == expected


@pytest.mark.parametrize("codec", list(Codec))
def test_records_that_go_over_many_pieces_are_skipped(codec: Codec) -> None:
    data = build_batch([Record(0, T0 + age, None, bytes(300_000)) for age in range(5)], codec=codec)
    assert drain(search(data, least_age=3))[0] == (3, 3)
    assert drain(search(data, least_age=5))[0] is None


def test_a_great_batch_takes_many_steps() -> None:
    one_record = bomb_of_one_record(Codec.ZSTD, 64 * MEBIBYTE)
    found, steps = drain(search(one_record, least_age=1, count=1))
    assert found is None
    many_records = build_batch([Record(0, T0, None, b"")] * 20_000, codec=Codec.GZIP)
    found, steps = drain(search(many_records, least_age=1))
    assert (found, steps > 20) == (None, True)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x0c\x00", id="an end inside of a head"),
        pytest.param(b"\x00\x00\x00\x00", id="no room for its head"),
        pytest.param(b"\x01\x00\x00\x00", id="a negative size"),
        pytest.param(b"\xff" * 40, id="a number that does not end"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x00", id="one record of two"),
    ],
)
def test_what_is_no_record_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidRecord):
        drain(search_by_age(payload, Codec.NONE, count=2, least_age=1, least_delta=0, max_inflated_bytes=1000))
