"""What the rows of coordinators count."""

import time

import pytest

from bench.raw_line import WrongAnswer
from bench.side_by_side.rows.coordinators import _repeat


class Line:
    """A connection whose frames are answered so, one after the other, and by the last from then on."""

    def __init__(self, *answers: bytes) -> None:
        self.expected = b"committed"
        self._answers = [*answers]

    async def exchange(self, frame: bytes) -> bytearray:
        assert frame in (b"0", b"1")
        return bytearray(self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])


async def test_commits_that_are_taken_count() -> None:
    assert await _repeat(Line(b"committed"), [b"0", b"1"], time.perf_counter() + 0.01) > 1


async def test_a_commit_that_is_refused_ends_the_row() -> None:
    with pytest.raises(WrongAnswer, match=r"b'refused' where b'committed'"):
        await _repeat(Line(b"committed", b"refused"), [b"0", b"1"], time.perf_counter() + 10)
