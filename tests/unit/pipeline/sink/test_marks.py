"""What a mark and a decision say of a batch that comes again."""

import pytest

from barnabas.pipeline.sink.marks import (
    Decision,
    Mark,
    ReplayRefused,
    RunName,
    check_decision,
    check_same,
    is_committed,
    read_decision,
    read_mark,
)

MARK = Mark(7, rows=3, checksum=0xAB)


def test_what_is_written_down_is_read_back() -> None:
    assert read_mark(8, MARK.metadata(), group_id="g") == MARK
    assert read_mark(1, Mark(0, 0, 2**64 - 1).metadata(), group_id="g") == Mark(0, 0, 2**64 - 1)
    assert read_decision(8, Decision(7, 200).metadata(), group_id="g") == Decision(7, 200)


@pytest.mark.parametrize("metadata", ["", "rows=1", "tasks=", "rows=1 checksum=ab", "rows=-1 checksum=" + "0" * 16])
def test_what_others_write_is_refused(metadata: str) -> None:
    for read in (read_mark, read_decision):
        with pytest.raises(ReplayRefused, match=r"group g has offset 8 with .* choose another transactionalIdPrefix"):
            read(8, metadata, group_id="g")


def test_a_task_knows_what_it_has_committed() -> None:
    assert not is_committed(None, 0, transactional_id="t")
    assert not is_committed(MARK, 8, transactional_id="t")
    assert not is_committed(MARK, 100, transactional_id="t")
    assert is_committed(MARK, 7, transactional_id="t")
    with pytest.raises(ReplayRefused, match="t has committed batch 7, and now batch 6 comes: the checkpoint is older"):
        is_committed(MARK, 6, transactional_id="t")


def test_rows_must_be_the_same_by_count_and_checksum() -> None:
    check_same(MARK, Mark(7, 3, 0xAB), transactional_id="t")
    for other in (Mark(7, 4, 0xAB), Mark(7, 3, 0xAC), Mark(7, 0, 0)):
        with pytest.raises(ReplayRefused, match="the query does not give the same rows again"):
            check_same(MARK, other, transactional_id="t")


def test_a_batch_is_decided_on_once_and_by_as_many_tasks() -> None:
    decided = Decision(7, tasks=3)
    assert not check_decision(None, decided, group_id="g")
    assert not check_decision(decided, Decision(8, 2), group_id="g")
    assert check_decision(decided, Decision(7, 3), group_id="g")
    with pytest.raises(ReplayRefused, match="batch 7 was written by 3 tasks, some of which may have been committed"):
        check_decision(decided, Decision(7, 2), group_id="g")
    with pytest.raises(ReplayRefused, match="g has committed batch 7, and now batch 6 comes"):
        check_decision(decided, Decision(6, 3), group_id="g")


def test_no_two_runs_have_a_name_in_common() -> None:
    names: list[str] = []
    for prefix in ("a", "a/b", "a/b/0", "a/0"):
        for run in ("b", "0", "driver"):
            name = RunName(prefix, run, 1)
            names += [name.group_id, name.transactional_id(0), name.transactional_id(1)]
    assert len(set(names)) == len(names)
