"""A row of the comparison: on what cluster it is measured, by which function, and what its figures must reach."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.side_by_side.clients import Volume
from bench.side_by_side.contestants import RunningCluster
from bench.side_by_side.figures import Figure, Target
from bench.side_by_side.usage import Usage, too_few_ticks

MB_S: Final = "MB/s"
CPU_S_GB: Final = "broker CPU s/GB"
KERNEL_S_GB: Final = "of it the kernel's s/GB"
REQUESTS_S: Final = "requests/s"
CPU_US: Final = "broker CPU us a request"
MORE: Final = Target(at_least=True, ratio=1.2)
MOST_CPU: Final = 0.6
"""Of Kafka's."""
LESS_CPU: Final = Target(at_least=False, ratio=MOST_CPU)
LESS_CPU_INSTEAD: Final = Target(at_least=False, ratio=MOST_CPU, stands_in=True)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a row is given. `scale` shrinks loads for a smoke run; files in `scratch` stay between runs."""

    cluster: RunningCluster
    scratch: Path
    scale: float


@dataclass(frozen=True, slots=True)
class Row:
    """`brokers` and `properties` say what cluster it needs; rows that need the same share one, warm.

    `own_properties` are for Barnabas only: keys that Kafka does not have. A row that is `fresh` gets a cluster of its
    own in every round, which nothing has warmed: it restarts the broker, or asks what a new one takes. Those that
    `restarts` brokers share a warm cluster with each other only, which is warmed again after each run of them, and are
    not tried before they count.
    """

    name: str
    measure: Callable[[Run], list[Figure]]
    targets: Mapping[str, Target] = field(default_factory=dict)
    brokers: int = 1
    properties: tuple[tuple[str, str], ...] = ()
    own_properties: tuple[tuple[str, str], ...] = ()
    is_core: bool = False
    is_fresh: bool = False
    restarts: bool = False
    alike: str = ""
    """The same text for rows that brokers run the same code for, as of other sizes: one is tried for all."""

    @property
    def tried_as(self) -> str:
        """What has been tried on a cluster once this row was."""
        return self.alike or self.name


class Incomplete(Exception):
    """A row of several parts failed at one of them, which the text tells; `figures` are those of the others."""

    def __init__(self, figures: list[Figure], reason: str) -> None:
        super().__init__(reason)
        self.figures = figures


def volume_figures(volume: Volume) -> list[Figure]:
    """Rate and cost of bytes that went in or out, with the kernel's part; records/s where somebody counted them."""
    gigabytes, usage = volume.payload_bytes / 1e9, volume.usage
    rate = Figure(MB_S, gigabytes * 1000 / volume.seconds, "MB/s", usage.limiter, is_rate=True, shares=usage.shares)
    cost = Figure(CPU_S_GB, usage.brokers / gigabytes, "s/GB", usage.limiter, unjudged=too_few_ticks(usage.brokers))
    kernel = Figure(KERNEL_S_GB, usage.kernel / gigabytes, "s/GB", usage.limiter)
    if volume.records is None:
        return [rate, cost, kernel]
    records = Figure("records/s", volume.records / volume.seconds, "records/s", usage.limiter, is_rate=True)
    return [rate, records, cost, kernel]


def request_figures(requests: int, seconds: float, usage: Usage) -> list[Figure]:
    """Rate and cost of requests of one record."""
    return [
        Figure(REQUESTS_S, requests / seconds, "requests/s", usage.limiter, is_rate=True, shares=usage.shares),
        Figure(CPU_US, usage.brokers / requests * 1e6, "us", usage.limiter, unjudged=too_few_ticks(usage.brokers)),
    ]
