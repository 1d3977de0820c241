"""Finding records and reading their varints many at a time gives what reading them one by one gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.columns.chunk import Chunk
from barnabas.pipeline.columns.record_walk import RecordWalker
from barnabas.pipeline.columns.runs import BatchProgress
from barnabas.pipeline.columns.varints import PADDING_BYTES, BadRecord, read_varints, skip_varints
from barnabas.protocol.batch import InvalidRecord, read_header
from barnabas.protocol.records import Record, build_batch
from tests.unit.pipeline.columns.logs import encode_varint

# Two sizes with one first byte of their length, lengths of one, two and three bytes.
SIZES = st.lists(
    st.tuples(st.sampled_from([6, 63, 64, 70, 134, 198, 9000]), st.integers(1, 40)), min_size=1, max_size=6
).map(lambda runs: [size for size, times in runs for _ in range(times)])


def laid_out(sizes: list[int]) -> tuple[bytes, list[int]]:
    """Records of these lengths, and where each begins."""
    content, starts = bytearray(), []
    for size in sizes:
        starts.append(len(content))
        content += encode_varint(size << 1) + bytes(size)
    return bytes(content), starts


@given(SIZES, st.data())
def test_each_whole_record_is_found_and_what_the_next_one_lacks(sizes: list[int], data: st.DataObject) -> None:
    content, starts = laid_out(sizes)
    ends = [*starts[1:], len(content)]
    cut = data.draw(st.sampled_from(ends).map(lambda end: max(0, end - 1)) | st.integers(0, len(content)))
    padded = content + bytes(PADDING_BYTES)
    walker = RecordWalker()
    for end in (cut, len(content)):
        walked = walker.walk(padded, np.frombuffer(padded, np.uint8), 0, end=end, count=len(sizes))
        whole = sum(each <= end for each in ends)
        assert walked.starts.tolist() == starts[:whole]
        assert walked.end == (ends[whole - 1] if whole else 0)
        cut_off = end - walked.end
        assert (walked.missing_bytes > 0) == (cut_off > 0)
        if cut_off:
            assert walked.missing_bytes <= ends[whole] - end


@given(SIZES, st.integers(1, 30))
def test_no_more_records_are_found_than_a_batch_has_left(sizes: list[int], count: int) -> None:
    content, starts = laid_out(sizes)
    padded = content + bytes(PADDING_BYTES)
    walked = RecordWalker().walk(padded, np.frombuffer(padded, np.uint8), 0, end=len(content), count=count)
    assert walked.starts.tolist() == starts[:count]
    assert walked.missing_bytes == 0


@given(SIZES, st.lists(st.integers(1, 300), min_size=1))
def test_a_batch_that_comes_in_pieces_gives_the_same_records(sizes: list[int], pieces: list[int]) -> None:
    content, _ = laid_out(sizes)
    header = read_header(build_batch([Record(0, 0, None, None)] * len(sizes)))
    batch, chunk = BatchProgress(header, len(sizes)), Chunk(100, 10, RecordWalker())
    chunk.begin(batch)
    found: list[int] = []
    at, nth = 0, 0
    while at < len(content):
        piece = content[at : at + pieces[nth % len(pieces)]]
        at, nth = at + len(piece), nth + 1
        chunk.add(piece)
        if at >= len(content):
            chunk.complete()
        if chunk.is_full or at >= len(content):
            walked = chunk.take()
            assert walked.failure is None
            lengths = np.diff([*walked.starts.tolist(), 0])[:-1].tolist()
            found += lengths
            batch.records_left -= len(walked.starts)
            # The last of a chunk is as long as its prefix says.
            if len(walked.starts):
                found.append(first_length(walked.content[int(walked.starts[-1]) :]))
    assert found == [size + len(encode_varint(size << 1)) for size in sizes]


def first_length(content: bytes) -> int:
    lengths, after = read_varints(np.frombuffer(content, np.uint8), np.array([0]), 32)
    return int(lengths[0] + after[0])


def test_a_length_of_more_than_five_bytes_is_refused() -> None:
    content = b"\xff" * 6 + bytes(PADDING_BYTES)
    with pytest.raises(InvalidRecord, match="a varint does not fit 32 bits"):
        RecordWalker().walk(content, np.frombuffer(content, np.uint8), 0, end=len(content), count=3)


@given(st.data(), st.sampled_from([32, 64]))
def test_varints_of_all_lengths_are_read_side_by_side(data: st.DataObject, bits: int) -> None:
    numbers = data.draw(
        st.lists(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) | st.integers(-70, 9000), min_size=1)
    )
    encoded = [encode_varint((number << 1) ^ (number >> bits)) for number in numbers]
    at = np.cumsum([0, *map(len, encoded)])
    content = np.frombuffer(b"".join(encoded) + bytes(PADDING_BYTES), np.uint8)
    read, after = read_varints(content, at[:-1], bits)
    assert read.tolist() == numbers
    assert after.tolist() == at[1:].tolist() == skip_varints(content, at[:-1], bits).tolist()


@pytest.mark.parametrize(
    ("bits", "over"),
    [(32, b"\xff\xff\xff\xff\x10"), (32, b"\xff" * 6), (64, b"\xff" * 9 + b"\x02"), (64, b"\xff" * 11)],
)
def test_a_number_of_more_bits_is_refused_with_its_place(bits: int, over: bytes) -> None:
    content = np.frombuffer(b"\x02" + over + bytes(PADDING_BYTES), np.uint8)
    with pytest.raises(BadRecord, match=f"does not fit {bits} bits") as caught:
        read_varints(content, np.array([0, 1]), bits)
    assert caught.value.index == 1
