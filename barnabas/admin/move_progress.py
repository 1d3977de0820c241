"""How far reassignments are: the bytes that the replicas that come still lack, and a bar of them."""

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import click

from barnabas.client.replica_admin import Reassignment, ReplicaAdmin
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from barnabas.client.cluster import Cluster

_UNIT: Final = 1024


def in_bytes(size: int) -> str:
    """A size for people: 17 B, 1.5 MiB."""
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < _UNIT or unit == "TiB":
            break
        value /= _UNIT
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


async def bytes_left(
    cluster: "Cluster", moving: Mapping[TopicPartition, Reassignment]
) -> dict[TopicPartition, int | None]:
    """What is left to copy of each partition; None where no replica that stays or goes tells its size."""
    if not moving:
        return {}
    brokers = sorted({broker for each in moving.values() for broker in each.replicas})
    sizes = await ReplicaAdmin(cluster).replica_bytes(brokers, moving.keys())
    left: dict[TopicPartition, int | None] = {}
    for at, each in moving.items():
        whole = [
            sizes[broker][at] for broker in each.replicas if broker not in each.adding and at in sizes.get(broker, {})
        ]
        if not whole:
            left[at] = None if each.adding else 0
            continue
        held = (sizes.get(broker, {}).get(at, 0) for broker in each.adding)
        left[at] = sum(max(0, max(whole) - size) for size in held)
    return left


class Progress:
    """A bar on a terminal; else a line whenever something changed."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._most = 0
        self._told = ""
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._shown:
            from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
            from rich.progress import Progress as Bar  # noqa: PLC0415

            self._bar = Bar(TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            self._bar.start()
            self._task = self._bar.add_task("", total=None)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, *, partitions: int, left: int) -> None:
        """Tell how many partitions still move and how many bytes they lack."""
        self._most = max(self._most, left)
        if self._bar is not None and self._task is not None:
            told = f"{partitions} partitions left" if partitions else "all have moved"
            self._bar.update(self._task, description=told, total=self._most, completed=self._most - left)
            return
        told = f"{partitions} partitions left, {in_bytes(left)} to copy" if partitions else "all have moved"
        if told != self._told:
            self._told = told
            click.echo(told, err=True)
