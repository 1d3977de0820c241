"""What the cleaner has to tell of each log: the run that is under way and the last one that ended.

The broker keeps it in memory, for its metrics, and in a file of each log directory, `barnabas-cleaner.json`, which
`barnabas logdirs` reads. The file is there for people: nothing is decided by it. A broker that starts goes on with it.
Kafka leaves files alone that it does not know.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from barnabas.protocol.ids import TopicPartition

REPORT_FILE: Final = "barnabas-cleaner.json"

RUNNING: Final = "running"
CLEANED: Final = "cleaned"
GIVEN_UP: Final = "given up"
"""The log changed meanwhile; the next run begins again."""
FAILED: Final = "failed"
"""The log is not cleaned any more until the broker starts again."""


class CorruptReport(Exception):
    """The content is not a report."""


@dataclass(slots=True, frozen=True)
class CleanerRun:
    """One cleaning of one log. `state` is one of the words above, `phase` the worker's; times are wall-clock."""

    topic: str
    partition: int
    state: str
    started_ms: int
    ended_ms: int = -1
    phase: str = ""
    done_bytes: int = 0
    total_bytes: int = 0
    dirty_ratio: float = 0.0
    first_dirty_offset: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    map_entries: int = 0
    map_capacity: int = 0
    memory_bytes: int = 0
    reason: str = ""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def progress(self) -> float:
        """How much of the run is done, 0 to 1: the map takes as long as the dirty bytes, the cleaning as all bytes."""
        if self.state != RUNNING:
            return 1.0
        return min(1.0, self.done_bytes / self.total_bytes) if self.total_bytes else 0.0

    @property
    def duration_ms(self) -> int:
        return max(0, self.ended_ms - self.started_ms) if self.ended_ms >= 0 else 0

    def ended(self, state: str, *, now_ms: int, reason: str = "") -> "CleanerRun":
        return replace(self, state=state, ended_ms=now_ms, reason=reason)


def encode_report(runs: Iterable[CleanerRun]) -> bytes:
    """The content of the file: one line a log, in order."""
    lines = [json.dumps(asdict(run)) for run in sorted(runs, key=lambda run: run.topic_partition)]
    return "".join(f"{line}\n" for line in lines).encode()


def decode_report(data: bytes) -> list[CleanerRun]:
    """Read the file. Raises CorruptReport."""
    try:
        return [CleanerRun(**_fields(json.loads(line))) for line in data.decode().splitlines()]
    except (ValueError, TypeError) as error:
        raise CorruptReport(str(error)) from None


def _fields(line: Any) -> dict[str, Any]:
    if not isinstance(line, dict):
        raise TypeError("a line is not an object")
    return line
