"""What a run tells of itself when it is over, as one JSON document; see `RunReport.document`."""

import contextlib
import json
import os
import tempfile
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from barnabas.runtime.clock import Clock, SystemClock


class Status(StrEnum):
    """How a run ended: STOPPED is what somebody asked for by a signal."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


class RunReport:
    """Counts, facts and batches of a run, collected while it runs. Not for several threads at once."""

    def __init__(self, job: str, config: Any, *, clock: Clock | None = None) -> None:
        self.job = job
        self.counts: dict[str, int] = {}
        self._config = config
        self._clock = clock or SystemClock()
        self._started_ms = self._clock.wall_ms()
        self._facts: dict[str, Any] = {}
        self._batches: list[dict[str, Any]] = []

    def add(self, name: str, number: int) -> None:
        """Count `number` more of something."""
        self.counts[name] = self.counts.get(name, 0) + number

    def tell(self, name: str, value: Any) -> None:
        """Say something about the run as a whole; said again, the last one stands. `value` is what JSON takes."""
        self._facts[name] = value

    def add_batch(self, batch: dict[str, Any]) -> None:
        """Add what one batch did."""
        self._batches.append(batch)

    def document(self, status: Status, error: str | None = None) -> dict[str, Any]:
        """The report: times in ISO 8601 and UTC, `error` None unless the run failed."""
        return {
            "job": self.job,
            "status": status.value,
            "error": error,
            "started": _iso(self._started_ms),
            "ended": _iso(self._clock.wall_ms()),
            "config": self._config,
            "counts": self.counts,
            "facts": self._facts,
            "batches": self._batches,
        }


def require_writable(path: Path) -> None:
    """Look, before anything is done, whether a report can be written to this place. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(parents=True)
    with tempfile.TemporaryFile(dir=path.parent):
        pass


def write_report(path: Path, document: dict[str, Any]) -> None:
    """Put a report in its place as a whole, or leave what was there. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        try:
            json.dump(document, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
            # Temporary files are for their owner alone; a report is for whoever may read what is written there.
            os.chmod(file.fileno(), 0o666 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
