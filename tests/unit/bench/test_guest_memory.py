"""Free memory is held apart, and given back with everything else that was changed for it."""

from pathlib import Path

import psutil
import pytest

from bench import guest_memory
from bench.guest_memory import kept_from_host


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files where those of the kernel are, and a little free memory."""
    for name, text in (("_REPORTING", ""), ("_DROP_CACHES", "0\n"), ("_COMPACTION", "20\n")):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(guest_memory, name, tmp_path / name)
    monkeypatch.setattr(guest_memory, "_SHARE", 16e6 / psutil.virtual_memory().free)
    return tmp_path


def test_what_is_held_is_little_and_the_setting_comes_back(kernel: Path) -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    with kept_from_host() as is_kept:
        assert is_kept
        assert process.memory_info().rss - before < 4e6
        assert (kernel / "_COMPACTION").read_text() == "0\n"
    assert (kernel / "_COMPACTION").read_text() == "20\n"
    assert (kernel / "_DROP_CACHES").read_text() == "1\n"


def test_where_no_memory_goes_back_nothing_is_held(kernel: Path) -> None:
    (kernel / "_REPORTING").unlink()
    with kept_from_host() as is_kept:
        assert not is_kept
        assert (kernel / "_COMPACTION").read_text() == "20\n"
