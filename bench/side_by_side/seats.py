"""A contestant's cluster while a block of rows is run: started and warmed once, and anew only after it broke."""

import shutil
from collections.abc import Callable
from typing import Final

from bench.side_by_side.contestants import Contestant, RunningCluster

_STARTS: Final = 3


class SeatEmpty(Exception):
    """The contestant has no cluster: it did not start, or broke too often."""


class Seat:
    """`start` makes a cluster that was not entered, `warm` makes it ready. `close` ends it and removes its files."""

    def __init__(
        self,
        contestant: Contestant,
        start: Callable[[], RunningCluster],
        warm: Callable[[RunningCluster], None],
    ) -> None:
        self.contestant = contestant
        self._start = start
        self._warm = warm
        self._cluster: RunningCluster | None = None
        self._starts_left = _STARTS
        self.tried: set[str] = set()
        """What has been run on the cluster of now (`Row.tried_as`), whether it counted or not."""

    def cluster(self) -> RunningCluster:
        """The one that runs, or a new one. Whatever goes wrong as it starts is raised, and SeatEmpty after a few."""
        if self._cluster is not None and not self._cluster.is_whole():
            self.close()
        if self._cluster is None:
            if not self._starts_left:
                raise SeatEmpty(f"{self.contestant} was started {_STARTS} times and does not run")
            self._starts_left -= 1
            self._cluster = self._start()
            self.tried.clear()
            try:
                self._cluster.__enter__()
                self._warm(self._cluster)
            except BaseException:
                self.close()
                raise
        return self._cluster

    def pids(self) -> list[int]:
        """Of the cluster that runs, if one does."""
        return [] if self._cluster is None else self._cluster.pids()

    def forget_commands(self) -> None:
        """What ran for a row that failed is not told as the next one's."""
        if self._cluster is not None:
            self._cluster.forget_commands()

    def close(self) -> None:
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            cluster.__exit__()
            shutil.rmtree(cluster.directory, ignore_errors=True)
