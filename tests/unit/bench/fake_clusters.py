"""In place of clusters of processes, for what runs rows on them: nothing is started, and what was asked is kept."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from bench.side_by_side.contestants import Contestant

CONTESTANTS = [Contestant(name, version, None) for name, version in (("Barnabas", "here"), ("Kafka", "2.7.2"))]


class Cluster:
    """A contestant in `broken` does not start."""

    broken: ClassVar[set[str]] = set()
    starts: ClassVar[list[str]] = []
    told: ClassVar[list[tuple[str, Mapping[str, str]]]] = []
    """The versions that were made, each with the properties of its brokers."""

    def __init__(
        self, contestant: Contestant, directory: Path, *, brokers: int = 1, properties: Mapping[str, str] | None = None
    ) -> None:
        self.contestant = contestant
        self.directory = directory
        self.ports = {broker_id: 9091 + broker_id for broker_id in range(1, brokers + 1)}
        self.pins: list[Sequence[int] | None] = []
        self.told.append((contestant.version, properties or {}))

    def __enter__(self) -> Self:
        self.starts.append(self.contestant.version)
        if self.contestant.version in self.broken:
            raise TimeoutError("does not serve")
        return self

    def __exit__(self, *_: object) -> None: ...

    def is_whole(self) -> bool:
        return True

    def pin(self, cpus: Sequence[int] | None) -> None:
        self.pins.append(cpus)

    def pids(self) -> list[int]:
        return []

    def forget_commands(self) -> None: ...

    def take_commands(self, purpose: str) -> dict[str, str]:
        return {f"{self.contestant}: {purpose}": "command"}
