"""Exactly once under SIGKILL, played small; `make claims ARGS=load` plays it large."""

from pathlib import Path

import pytest

from tests.pipeline.load.kill_story import Plan, Victim, play


@pytest.mark.processes
@pytest.mark.parametrize(("kind", "victims"), [("delta", ("worker", "driver")), ("parquet", ("broker", "all"))])
def test_what_is_killed_between_plan_and_commit_loads_everything_once(
    kind: str, victims: tuple[Victim, ...], tmp_path: Path, seed: int
) -> None:
    seen = play(tmp_path, Plan(records=30_000, batch=3000, victims=victims, kind=kind), seed=seed)
    assert seen.findings == []
    assert (seen.rows, [each.victim for each in seen.kills]) == (30_000, list(victims))
    assert seen.batches == 10
