"""Runs rows on all contestants: each block of rows on clusters that stay up, warmed before the first round, in turn.

Nothing that goes wrong with one run takes others with it: each is in the journal when it is done, and a cluster that
broke is started and warmed again. What could not be run, or not often enough, is told with the reason.
"""

import contextlib
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bench.side_by_side import clients
from bench.side_by_side.clients import KcatMissing, Shape
from bench.side_by_side.contestants import Contestant, RunningCluster
from bench.side_by_side.figures import OURS, Result, results
from bench.side_by_side.journal import Journal
from bench.side_by_side.row import Row, Run
from bench.side_by_side.seats import Seat

_WARM_BYTES: Final = 2_000_000_000
_WARM_S: Final = 60.0
_WARM_PIECE: Final = Shape(100_000_000, 1000)
_SETTLE_S: Final = 1.0
_FAILURES: Final = 2
"""After so many of a row on a contestant it is not tried again."""
_REASON_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class Plan:
    """How often each row is run, how large, whether clusters are warmed (all but a smoke run are), and until when.

    `ends_s` is of the monotonic clock: no run begins after it.
    """

    rounds: int
    scale: float = 1.0
    warms: bool = True
    ends_s: float | None = None


@dataclass(slots=True)
class Comparison:
    """What came of it; `left_out` names rows that could not be run, or not as often as planned, each with why."""

    results: list[Result] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)


class OutOfTime(Exception):
    """The plan's end has come."""


class Runner:
    """Runs rows by a plan; `tell` hears of each run. What clusters write goes below `directory`."""

    def __init__(
        self,
        contestants: Sequence[Contestant],
        plan: Plan,
        directory: Path,
        *,
        journal: Journal,
        tell: Callable[[str], None],
    ) -> None:
        self._contestants = contestants
        self._plan = plan
        self._directory = directory
        self._scratch = directory / "scratch"
        self._scratch.mkdir()
        self._journal = journal
        self._tell = tell
        self._failures: Counter[tuple[str, str]] = Counter()
        self._reasons: dict[tuple[str, str], str] = {}

    def compare(self, rows: Sequence[Row]) -> Comparison:
        """All rows, each on every contestant, as often as the journal does not have it yet."""
        with contextlib.suppress(OutOfTime):
            for block in _blocks([row for row in rows if not self._is_done(row)]):
                if block[0].is_fresh:
                    self._fresh(block[0])
                else:
                    self._together(block)
        return self.found(rows)

    def found(self, rows: Sequence[Row]) -> Comparison:
        """What the journal has by now."""
        found = Comparison(commands=self._journal.commands)
        for row in rows:
            versions = [each.version for each in self._contestants if self._journal.count(row.name, each.version)]
            if OURS in versions:
                runs = self._journal.runs(row.name)
                found.results += results(row.name, {version: runs[version] for version in versions}, row.targets)
            if lacking := [text for each in self._contestants if (text := self._lacking(row, each))]:
                found.left_out[row.name] = "; ".join(lacking)
        return found

    @property
    def has_failed(self) -> bool:
        """Whether a run did, other than for a client that is not installed."""
        return any(not reason.startswith(KcatMissing.__name__) for reason in self._reasons.values())

    def _lacking(self, row: Row, contestant: Contestant) -> str:
        count = self._journal.count(row.name, contestant.version)
        if count >= self._plan.rounds:
            return ""
        reason = self._reasons.get((row.name, contestant.version), "no time was left")
        return f"{contestant}, {count} of {self._plan.rounds} rounds: {reason}"

    def _is_done(self, row: Row) -> bool:
        return all(self._journal.count(row.name, each.version) >= self._plan.rounds for each in self._contestants)

    def _together(self, block: Sequence[Row]) -> None:
        with contextlib.ExitStack() as open_seats:
            seats = [self._seat(each, block[0], self._warm) for each in self._contestants]
            for seat in seats:
                open_seats.callback(seat.close)
            for seat in seats:
                try:
                    seat.cluster()
                except Exception as error:  # noqa: BLE001 - the others go on; it is tried again
                    self._tell(f"{seat.contestant} does not start: {_short(error)}")
            for number in range(self._plan.rounds):
                for row in block:
                    # Whoever came first comes last the next time.
                    turn = number % len(seats)
                    for seat in (*seats[turn:], *seats[:turn]):
                        self._run(number, row, seat)

    def _fresh(self, row: Row) -> None:
        for number in range(self._plan.rounds):
            turn = number % len(self._contestants)
            for contestant in (*self._contestants[turn:], *self._contestants[:turn]):
                seat = self._seat(contestant, row, lambda _: None)
                with contextlib.closing(seat):
                    self._run(number, row, seat)

    def _run(self, number: int, row: Row, seat: Seat) -> None:
        version = seat.contestant.version
        pair = row.name, version
        if self._journal.count(*pair) > number or self._failures[pair] >= _FAILURES:
            return
        if self._plan.ends_s is not None and time.monotonic() > self._plan.ends_s:
            raise OutOfTime
        try:
            cluster = seat.cluster()
            # What the run before has written is not flushed at the expense of this one.
            os.sync()
            time.sleep(_SETTLE_S if self._plan.warms else 0)
            told = row.measure(Run(cluster, self._scratch, self._plan.scale))
            commands = cluster.take_commands(row.name)
        except Exception as error:  # noqa: BLE001 - whatever it is, other runs go on
            self._failures[pair] += _FAILURES if isinstance(error, KcatMissing) else 1
            self._reasons[pair] = _short(error)
            self._tell(f"round {number + 1} | {row.name} | {seat.contestant} | FAILED: {type(error).__name__}: {error}")
            return
        self._journal.add(row.name, version, told, commands)
        values = ", ".join(f"{each.name} {each.value:.4g}" for each in told)
        self._tell(f"round {number + 1} | {row.name} | {cluster} | {values} | {told[0].limiter}")

    def _seat(self, contestant: Contestant, row: Row, warm_up: Callable[[RunningCluster], None]) -> Seat:
        def start() -> RunningCluster:
            directory = Path(tempfile.mkdtemp(prefix=f"{contestant.name.lower()}-", dir=self._directory))
            properties = dict(row.properties + (row.own_properties if contestant.version == OURS else ()))
            return RunningCluster(contestant, directory, brokers=row.brokers, properties=properties)

        return Seat(contestant, start, warm_up)

    def _warm(self, cluster: RunningCluster) -> None:
        if self._plan.warms:
            self._tell(f"warming {cluster}, {len(cluster.ports)} brokers")
            warm(cluster)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ").replace("|", "/")[:_REASON_CHARACTERS]


def _blocks(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows that share clusters; one that is fresh stands alone."""
    shared: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if not row.is_fresh:
            shared.setdefault((row.brokers, row.properties, row.own_properties), []).append(row)
    yield from shared.values()
    yield from ([row] for row in rows if row.is_fresh)


def warm(cluster: RunningCluster) -> None:
    """2 GB in and out and 60 s at least, with small requests between, so that a JVM has compiled what it will run."""
    ends_s = time.perf_counter() + _WARM_S
    written = 0
    replicas = min(3, len(cluster.ports))
    while written < _WARM_BYTES or time.perf_counter() < ends_s:
        for shape in (_WARM_PIECE, replace(_WARM_PIECE, record_bytes=100)):
            with cluster.topic(partitions=3, replication_factor=replicas) as topic:
                given = replace(shape, partitions=3, acks=-1 if replicas > 1 else 1)
                written += clients.replay(cluster, topic, given).payload_bytes
                records = given.records // 3
                size = given.payload_bytes
                clients.drain(cluster, topic, partitions=3, records=records, answer_bytes=size)
                clients.single_records(cluster, topic, requests=5_000, connections=4, window=4)
