"""Runs rows on all contestants: each block of rows on clusters that stay up, warmed before the first round, in turn."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bench.side_by_side import clients
from bench.side_by_side.clients import KcatMissing, Shape
from bench.side_by_side.contestants import Contestant, RunningCluster
from bench.side_by_side.figures import OURS, Figure, Result, results
from bench.side_by_side.row import Row, Run

_WARM_BYTES: Final = 2_000_000_000
_WARM_S: Final = 60.0
_WARM_PIECE: Final = Shape(100_000_000, 1000)
_SETTLE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How often each row is run, how large, and whether clusters are warmed (all but a smoke run are)."""

    rounds: int
    scale: float = 1.0
    warms: bool = True


@dataclass(slots=True)
class Comparison:
    """What came of it; `left_out` names rows that could not be run, each with the reason."""

    results: list[Result] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


Figures = dict[str, dict[str, list[list[Figure]]]]
"""By row, by version of the contestant: the figures of each round."""


class Runner:
    """Runs rows by a plan; `tell` hears of each run. What clusters write goes below `directory`."""

    def __init__(
        self, contestants: Sequence[Contestant], plan: Plan, directory: Path, *, tell: Callable[[str], None]
    ) -> None:
        self._contestants = contestants
        self._plan = plan
        self._directory = directory
        self._scratch = directory / "scratch"
        self._scratch.mkdir()
        self._tell = tell
        self._found = Comparison()

    def compare(self, rows: Sequence[Row]) -> Comparison:
        """All rows, each on every contestant."""
        for block in _blocks(rows):
            figures = self._fresh(block[0]) if block[0].is_fresh else self._together(block)
            for row in block:
                if row.name not in self._found.left_out:
                    self._found.results += results(row.name, figures[row.name], row.targets)
        return self._found

    def _together(self, block: Sequence[Row]) -> Figures:
        figures: Figures = {row.name: {each.version: [] for each in self._contestants} for row in block}
        with ExitStack() as running:
            clusters = [running.enter_context(self._cluster(each, block[0])) for each in self._contestants]
            for cluster in clusters if self._plan.warms else ():
                self._tell(f"warming {cluster}, {len(cluster.ports)} brokers")
                warm(cluster)
            for number in range(self._plan.rounds):
                for row in block:
                    # Whoever came first comes last the next time.
                    turn = number % len(clusters)
                    for cluster in (*clusters[turn:], *clusters[:turn]):
                        self._run(number, row, cluster, figures)
        for cluster in clusters:
            shutil.rmtree(cluster.directory)
        return figures

    def _fresh(self, row: Row) -> Figures:
        figures: Figures = {row.name: {each.version: [] for each in self._contestants}}
        for number in range(self._plan.rounds):
            for contestant in self._contestants:
                with self._cluster(contestant, row) as cluster:
                    self._run(number, row, cluster, figures)
                shutil.rmtree(cluster.directory)
        return figures

    def _run(self, number: int, row: Row, cluster: RunningCluster, figures: Figures) -> None:
        if row.name in self._found.left_out:
            return
        # What the run before has written is not flushed at the expense of this one.
        os.sync()
        time.sleep(_SETTLE_S if self._plan.warms else 0)
        try:
            told = row.measure(Run(cluster, self._scratch, self._plan.scale))
        except KcatMissing as error:
            self._found.left_out[row.name] = str(error)
            return
        figures[row.name][cluster.contestant.version].append(told)
        values = ", ".join(f"{each.name} {each.value:.4g}" for each in told)
        self._tell(f"round {number + 1} | {row.name} | {cluster} | {values} | {told[0].limiter}")

    def _cluster(self, contestant: Contestant, row: Row) -> RunningCluster:
        directory = Path(tempfile.mkdtemp(prefix=f"{contestant.name.lower()}-", dir=self._directory))
        properties = dict(row.properties + (row.own_properties if contestant.version == OURS else ()))
        return RunningCluster(contestant, directory, brokers=row.brokers, properties=properties)


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
