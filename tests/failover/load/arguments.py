"""What every load client is told on its command line, and how it is told to end: its standard input closes."""

import argparse
import os
import select
import sys
from dataclasses import dataclass
from pathlib import Path

from barnabas.protocol.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Task:
    """Where to, what, how fast. `partitions` counts those of the topic."""

    bootstrap: str
    topic: str
    partitions: int
    client: str
    history: Path
    rate: int
    value_bytes: int
    most_open: int

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in range(self.partitions)]

    def arguments(self) -> list[str]:
        """The command line that `parse` reads."""
        fields = {
            "bootstrap": self.bootstrap,
            "topic": self.topic,
            "partitions": self.partitions,
            "client": self.client,
            "history": self.history,
            "rate": self.rate,
            "value-bytes": self.value_bytes,
            "most-open": self.most_open,
        }
        return [f"--{name}={value}" for name, value in fields.items()]


def parse(arguments: list[str] | None = None) -> Task:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "client"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--history", type=Path, required=True)
    for name in ("partitions", "rate", "value-bytes", "most-open"):
        parser.add_argument(f"--{name}", type=int, required=True)
    given = vars(parser.parse_args(arguments))
    return Task(**given)


def is_told_to_end() -> bool:
    """Whether standard input was closed."""
    return bool(select.select([sys.stdin], [], [], 0)[0]) and not os.read(sys.stdin.fileno(), 1)


class Pace:
    """How many records are due at a rate per second; what could not be sent for more than a second is let go."""

    def __init__(self, rate: int, now: float) -> None:
        self._rate = rate
        self._start = now
        self._sent = 0

    def due(self, now: float) -> int:
        behind = int((now - self._start) * self._rate) - self._sent
        if behind > self._rate:
            self._sent += behind - self._rate
            behind = self._rate
        return behind

    def sent(self, count: int) -> None:
        self._sent += count
