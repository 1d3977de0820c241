"""Runs rows on all contestants: each block of rows on clusters that stay up, warmed before the first round, in turn.

Nothing that goes wrong with one run takes others with it: each is in the journal when it is done, and a cluster that
broke is started and warmed again. What could not be run, or not often enough, is told with the reason.
"""

import contextlib
import math
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from bench.side_by_side import clients
from bench.side_by_side.clients import ProgramMissing, Shape
from bench.side_by_side.contestants import Contestant, RunningCluster
from bench.side_by_side.figures import OURS, Figure, Result, results
from bench.side_by_side.journal import Journal
from bench.side_by_side.row import Incomplete, Row, Run
from bench.side_by_side.seats import Seat
from bench.side_by_side.usage import Account, loop_ms

T = TypeVar("T")

_WARM_BYTES: Final = 2_000_000_000
_WARM_S: Final = 60.0
"""By broker: JVMs that share a machine take as much longer until all have compiled what they run."""
_WARM_PIECE: Final = Shape(500_000_000, 1000)
_WARM_SHAPES: Final = (_WARM_PIECE, replace(_WARM_PIECE, record_bytes=100))
_WARM_READS: Final = 10
"""How many times over a piece is read: most of the time goes into what is to be warmed, and not into starting loads."""
_WARM_REQUESTS: Final = 20_000
_SETTLE_S: Final = 2.0
"""Longer than topics' files outlive them (`contestants.SETTINGS`)."""
_FAILURES: Final = 2
"""After so many of a row on a contestant it is not tried again."""
_REASON_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class Plan:
    """How often each row is run, how large, whether clusters are warmed (all but a smoke run are), and until when.

    `ends_s` is of the monotonic clock: no run begins after it. Where a program is not installed, rows that were `named`
    have failed, and others are left out.
    """

    rounds: int
    scale: float = 1.0
    warms: bool = True
    ends_s: float = math.inf
    named: bool = False

    @property
    def judges(self) -> bool:
        """Whether figures are held against aims: those of tiny loads on cold systems are not."""
        return self.warms and self.scale >= 1

    def tries_first(self, row: Row) -> bool:
        """Whether a run that does not count goes first on each cluster: a JVM would compile what it measures."""
        return self.warms and not (row.is_fresh or row.restarts)


@dataclass(slots=True)
class Comparison:
    """What came of it; `left_out` names rows that could not be run, or not as often as planned, each with why.

    `properties` has by row what its brokers are told beyond what all are, `all` of them or those of `Barnabas`.
    """

    results: list[Result] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    properties: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    judges: bool = True
    """Not of a smoke run."""


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
        self._places: dict[str, int] = {}
        self._failures: Counter[tuple[str, str]] = Counter()
        self._reasons: dict[tuple[str, str], str] = {}

    def compare(self, rows: Sequence[Row]) -> Comparison:
        """All rows, each on every contestant, as often as the journal does not have it yet."""
        self._places = {row.name: place for place, row in enumerate(rows)}
        with contextlib.suppress(OutOfTime):
            for block in blocks([row for row in rows if not self._is_done(row)]):
                if block[0].is_fresh:
                    self._fresh(block[0])
                else:
                    self._together(block)
        return self.found(rows)

    def found(self, rows: Sequence[Row]) -> Comparison:
        """What the journal has by now."""
        judges = self._plan.judges
        found = Comparison(commands=self._journal.commands, judges=judges)
        for row in rows:
            if row.properties or row.own_properties:
                found.properties[row.name] = {"all": dict(row.properties), "Barnabas": dict(row.own_properties)}
            if self._journal.count(row.name, OURS):
                runs = self._journal.runs(row.name)
                versions = [each.version for each in self._contestants]
                told = {version: runs[version] for version in versions}
                found.results += results(row.name, told, row.targets, judges=judges)
            if lacking := [text for each in self._contestants if (text := self._lacking(row, each))]:
                found.left_out[row.name] = "; ".join(lacking)
        return found

    def has_failed(self, rows: Sequence[Row]) -> bool:
        """Whether a run did, or a core row lacks a contestant. What lacks a program: see `Plan`."""
        return any(
            self._plan.named or not reason.startswith(ProgramMissing.__name__) for reason in self._reasons.values()
        ) or any(
            row.is_core and not self._journal.count(row.name, each.version)
            for row in rows
            for each in self._contestants
        )

    def _lacking(self, row: Row, contestant: Contestant) -> str:
        count, pair = self._journal.count(row.name, contestant.version), (row.name, contestant.version)
        if count >= self._plan.rounds:
            incomplete = self._journal.incomplete.get(pair)
            return f"{contestant}, {incomplete}" if incomplete else ""
        reason = self._reasons.get(pair, "no time was left")
        return f"{contestant}, {count} of {self._plan.rounds} rounds: {reason}"

    def _is_done(self, row: Row) -> bool:
        return all(self._journal.count(row.name, each.version) >= self._plan.rounds for each in self._contestants)

    def _together(self, block: Sequence[Row]) -> None:
        self._check_time()
        with contextlib.ExitStack() as open_seats:
            seats = [self._seat(each, block[0], self._warm) for each in self._contestants]
            for seat in seats:
                open_seats.callback(seat.close)
            for seat in seats:
                self._check_time()
                try:
                    seat.cluster()
                except Exception as error:  # noqa: BLE001 - the others go on; it is tried again
                    self._tell(f"{seat.contestant} does not start: {_short(error)}")
            for number in range(self._plan.rounds):
                for row in block:
                    for seat in in_turn(seats, self._turn(number, row)):
                        self._run(number, row, seat, [each for each in seats if each is not seat])

    def _turn(self, number: int, row: Row) -> int:
        """One round of many rows is not always begun by the same system."""
        return number + 2 * self._places[row.name]

    def _fresh(self, row: Row) -> None:
        for number in range(self._plan.rounds):
            for contestant in in_turn(self._contestants, self._turn(number, row)):
                seat = self._seat(contestant, row, lambda _: None)
                with contextlib.closing(seat):
                    self._run(number, row, seat, [])

    def _run(self, number: int, row: Row, seat: Seat, rivals: Sequence[Seat]) -> None:
        version = seat.contestant.version
        pair = row.name, version
        if self._journal.count(*pair) > number or self._failures[pair] >= _FAILURES:
            return
        self._check_time()
        try:
            cluster = seat.cluster()
            commands = cluster.take_commands("warming")
            pids = [pid for rival in rivals for pid in rival.pids()]
            if self._plan.tries_first(row) and row.tried_as not in seat.tried:
                self._measure(row, cluster, pids)
                cluster.take_commands(row.name)
            elif row.restarts and seat.tried and self._plan.warms:
                # What was restarted is cold, and takes over from the others or does what they ask for next.
                warm_again(cluster)
                cluster.take_commands(row.name)
            seat.tried.add(row.tried_as)
            told, incomplete = self._measure(row, cluster, pids)
            commands |= cluster.take_commands(row.name)
        except Exception as error:  # noqa: BLE001 - whatever it is, other runs go on
            seat.forget_commands()
            self._failures[pair] += _FAILURES if isinstance(error, ProgramMissing) else 1
            self._reasons[pair] = _short(error)
            self._tell(f"round {number + 1} | {row.name} | {seat.contestant} | FAILED: {type(error).__name__}: {error}")
            return
        if incomplete:
            self._reasons[pair] = incomplete
        self._journal.add(row.name, version, told, commands, incomplete)
        values = ", ".join(f"{each.name} {each.value:.4g}" for each in told)
        lacking = f" | INCOMPLETE: {incomplete}" if incomplete else ""
        elsewhere = f"{told[0].elsewhere or 0.0:.2f} cores elsewhere, loop {told[0].loop_ms or 0.0:.0f} ms"
        self._tell(f"round {number + 1} | {row.name} | {cluster} | {values} | {told[0].limiter}, {elsewhere}{lacking}")

    def _measure(self, row: Row, cluster: RunningCluster, rivals: Sequence[int]) -> tuple[list[Figure], str]:
        """The figures, and why some are missing. `rivals` are the pids of clusters that wait meanwhile."""
        # What the run before has written is not flushed at the expense of this one.
        os.sync()
        time.sleep(_SETTLE_S if self._plan.warms else 0)
        loop_before_ms = loop_ms()
        before, incomplete = Account.now(rivals), ""
        try:
            figures = row.measure(Run(cluster, self._scratch, self._plan.scale))
        except Incomplete as error:
            figures, incomplete = error.figures, _short(error)
        elsewhere = Account.now(rivals).elsewhere_since(before)
        loops_ms = statistics.fmean((loop_before_ms, loop_ms()))
        return [replace(figure, elsewhere=elsewhere, loop_ms=loops_ms) for figure in figures], incomplete

    def _check_time(self) -> None:
        if time.monotonic() > self._plan.ends_s:
            raise OutOfTime

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


def in_turn(contestants: Sequence[T], number: int) -> list[T]:
    """In which order they come in a round: in two rounds one and its reverse, in the next two another one."""
    turn = number // 2 % len(contestants)
    order = [*contestants[turn:], *contestants[:turn]]
    return order[::-1] if number % 2 else order


def blocks(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that share clusters: those that restart brokers with each other only, and one that is fresh with none.

    Those of few rows come first. When the time is over, what is lost is then the last rounds of the largest block,
    whose rows take turns, and no row as a whole.
    """
    shared: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        alone = row.name if row.is_fresh else ""
        shared.setdefault((row.brokers, row.properties, row.own_properties, row.restarts, alone), []).append(row)
    return sorted(shared.values(), key=lambda block: (not block[0].is_fresh, len(block)))


def in_and_out(cluster: RunningCluster, shape: Shape) -> int:
    """Write so much, read it and send some small requests; how many bytes came in."""
    replicas = min(3, len(cluster.ports))
    with cluster.topic(partitions=3, replication_factor=replicas) as topic:
        given = replace(shape, partitions=3, acks=-1 if replicas > 1 else 1)
        written = clients.replay(cluster, topic, given).payload_bytes
        records = given.records // 3
        answer_bytes = _WARM_READS * given.payload_bytes
        clients.drain(cluster, topic, partitions=3, records=records, answer_bytes=answer_bytes)
        clients.single_records(cluster, topic, requests=_WARM_REQUESTS, connections=4, window=4)
    return written


def warm(
    cluster: RunningCluster,
    pass_through: Callable[[RunningCluster, Shape], int] = in_and_out,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """2 GB in and out and 60 s a broker at least, with small requests between: a JVM has compiled then what it runs."""
    ends_s = clock() + _WARM_S * len(cluster.ports)
    written = 0
    while written < _WARM_BYTES or clock() < ends_s:
        written += sum(pass_through(cluster, shape) for shape in _WARM_SHAPES)


def warm_again(cluster: RunningCluster) -> None:
    """Half of the bytes of `warm` once more, for brokers that were restarted since."""
    for shape in _WARM_SHAPES:
        in_and_out(cluster, shape)
