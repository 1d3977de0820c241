"""A query has begun when it has its sources, or when it has ended without them; each of its batches is told once."""

import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from barnabas.pipeline.jobs.job import Run
from barnabas.pipeline.stream_following import FollowedQuery, await_sources

BEGINNING = ["Initializing StreamExecution", "Initializing sources"]


class Query:
    """Says of its status what it is given, one at each look, and is active `looks` times."""

    def __init__(self, messages: list[str], *, looks: int = 100) -> None:
        self.messages = messages
        self.looks = looks

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        self.looks -= 1
        return self.looks >= 0

    @property
    def status(self) -> dict[str, Any]:
        return {"message": self.messages.pop(0), "isDataAvailable": False, "isTriggerActive": True}


def run_with(stopping: threading.Event) -> Run[None]:
    run: Run[None] = Run("job", None)
    run.stopping = stopping
    return run


class Stopping(threading.Event):
    """Nobody waits for it; how often it was asked, and from when on it is set."""

    def __init__(self, *, after: int = 1000) -> None:
        super().__init__()
        self.asked = 0
        self.after = after

    def wait(self, timeout: float | None = None) -> bool:
        self.asked += 1
        return self.asked >= self.after


@dataclass
class Progress:
    """What Spark tells of one trigger."""

    batchId: int  # noqa: N815 - Spark's names
    durationMs: dict[str, int]  # noqa: N815


def test_a_batch_is_told_once_and_not_because_nothing_happened_before_it() -> None:
    ran, idle = {"addBatch": 5, "triggerExecution": 9}, {"triggerExecution": 1}
    query = SimpleNamespace(recentProgress=[Progress(0, ran), Progress(1, idle)])
    followed = FollowedQuery(query)  # type: ignore[arg-type]
    assert [each.batchId for each in followed.batches()] == [0]
    query.recentProgress += [Progress(1, ran), Progress(2, idle), Progress(2, idle), Progress(2, ran)]
    assert [each.batchId for each in followed.batches()] == [1, 2]
    assert list(followed.batches()) == []


def test_it_is_waited_for_until_it_has_its_sources() -> None:
    query, stopping = Query([*BEGINNING, "Getting offsets from barnabas", "not asked for"]), Stopping()
    await_sources(query, run_with(stopping))  # type: ignore[arg-type]
    assert query.messages == ["not asked for"]
    assert stopping.asked == len(BEGINNING)


def test_one_that_ended_is_not_waited_for() -> None:
    query = Query(BEGINNING[:1] * 10, looks=3)
    await_sources(query, run_with(Stopping()))  # type: ignore[arg-type]
    assert len(query.messages) == 7


def test_the_end_of_all_is_not_kept_waiting() -> None:
    query = Query(BEGINNING[:1] * 10)
    await_sources(query, run_with(Stopping(after=2)))  # type: ignore[arg-type]
    assert len(query.messages) == 8
