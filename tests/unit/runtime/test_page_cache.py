"""The kernel's count of a file's pages in memory, where it has one."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.runtime.page_cache import PAGE_BYTES as PAGE
from barnabas.runtime.page_cache import pages_in_memory, pages_of


@pytest.mark.parametrize(
    ("position", "size", "pages"),
    [(0, 1, 1), (0, PAGE, 1), (0, PAGE + 1, 2), (PAGE - 1, 1, 1), (PAGE - 1, 2, 2), (PAGE, PAGE, 1), (1, 2 * PAGE, 3)],
)
def test_a_range_touches_the_pages_of_its_first_and_last_byte(position: int, size: int, pages: int) -> None:
    assert pages_of(position, size) == pages


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "segment"
    path.write_bytes(bytes(100 * PAGE))
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_of_what_was_just_written_every_page_is_counted_or_none_can_be(descriptor: int) -> None:
    for position, size in ((0, 1), (0, 100 * PAGE), (PAGE - 1, 2), (5 * PAGE + 17, 3 * PAGE)):
        assert pages_in_memory(descriptor, position, size) in (pages_of(position, size), 0, None)


def test_beyond_its_end_a_file_has_no_pages(descriptor: int) -> None:
    assert not pages_in_memory(descriptor, 200 * PAGE, PAGE)


def test_of_what_is_no_file_nothing_can_be_said() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    os.close(reading)
    assert pages_in_memory(reading, 0, PAGE) is None
