"""What is measured: figures with a name and labels, and the event that carries those of one moment. Pure.

    {"time": 1700000000000, "host": "h", "broker": 1, "figures": [
        {"metric": "process.cpu_fraction", "labels": {}, "value": 0.31}, ...]}

`broker` is null for what belongs to the host. Shares are between 0 and 1, sizes in bytes, times in milliseconds, rates
for a second.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

K = TypeVar("K")

METRICS: Final = frozenset(
    {
        "cpu.used_fraction",
        "cpu.load_1m",
        "memory.used_fraction",
        "memory.available_bytes",
        "swap.used_bytes",
        "disk.used_fraction",
        "disk.free_bytes",
        "disk.read_bytes_per_s",
        "disk.written_bytes_per_s",
        "network.received_bytes_per_s",
        "network.sent_bytes_per_s",
        "broker.up",
        "process.cpu_cores",
        "process.memory_bytes",
        "process.threads",
        "process.open_files",
        "requests.per_s",
        "requests.errors_per_s",
        "requests.p50_ms",
        "requests.p99_ms",
        "requests.failed_produce_per_s",
        "requests.failed_fetch_per_s",
        "messages_in_per_s",
        "bytes_in_per_s",
        "bytes_out_per_s",
        "partitions.count",
        "partitions.led",
        "partitions.under_replicated",
        "partitions.under_min_isr",
        "partitions.offline_replicas",
        "replication.greatest_lag",
        "replication.bytes_in_per_s",
        "replication.isr_shrinks_per_s",
        "controller.active",
        "controller.offline_partitions",
        "connections.refused_per_s",
        "loop_lag.p50_ms",
        "loop_lag.p99_ms",
    }
)
"""The names of all figures that an agent may tell."""


class Figure(msgspec.Struct, frozen=True):
    """One number."""

    metric: str
    value: float
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class Series(NamedTuple):
    """What is followed over time: one metric of one host or broker with one set of labels, which are sorted."""

    host: str
    broker: int | None
    metric: str
    labels: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        place = self.host if self.broker is None else f"broker {self.broker} on {self.host}"
        labels = f"{{{', '.join(f'{name}={value}' for name, value in self.labels)}}}" if self.labels else ""
        return f"{self.metric}{labels} of {place}"


class Sample(msgspec.Struct, frozen=True):
    """The figures of one host or broker at one moment, in milliseconds since the epoch."""

    time: int
    host: str
    broker: int | None
    figures: list[Figure]

    def series(self) -> Iterable[tuple[Series, float]]:
        """Each figure with what it is one of."""
        for each in self.figures:
            yield Series(self.host, self.broker, each.metric, tuple(sorted(each.labels.items()))), each.value

    @property
    def key(self) -> bytes:
        """Samples of one host or broker are in one partition, in order."""
        return (self.host if self.broker is None else f"{self.host}/{self.broker}").encode()


class Rates:
    """Makes rates of counters: how much they grew for each second since they were seen last.

    A counter that fell was begun anew, as its process was; the first time there is no rate.
    """

    def __init__(self) -> None:
        self._last: dict[object, tuple[float, int]] = {}

    def of(self, counters: Mapping[K, float], now_ms: int) -> dict[K, float]:
        """The rates of these counters. `now_ms` is of a clock that never goes back."""
        rates: dict[K, float] = {}
        for key, value in counters.items():
            before = self._last.get(key)
            if before is not None and now_ms > before[1]:
                grown = value - before[0] if value >= before[0] else value
                rates[key] = grown * 1000 / (now_ms - before[1])
            self._last[key] = value, now_ms
        return rates

    def forget(self) -> None:
        """What is counted from now on is another process's."""
        self._last.clear()


def encode(sample: Sample) -> bytes:
    """As it stands in the topic."""
    return msgspec.json.encode(sample)


def decode(raw: bytes) -> Sample:
    """Raises msgspec.MsgspecError."""
    return msgspec.json.decode(raw, type=Sample)
