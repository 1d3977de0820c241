"""Every run as it was made, a line of JSON each in a file, so that a comparison that broke off goes on where it was.

Owns the figures of all runs, by row and version of the contestant. Without a file they are kept in memory only.
"""

import contextlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.side_by_side.figures import Figure


class Journal:
    """Reads what the file has; `add` writes on. A last line that is torn counts for nothing."""

    def __init__(self, path: Path | None = None) -> None:
        self.commands: dict[str, str] = {}
        """How brokers and clients were started, by what each is."""
        self._path = path
        self._runs: defaultdict[str, defaultdict[str, list[list[Figure]]]] = defaultdict(lambda: defaultdict(list))
        text = path.read_text() if path is not None and path.exists() else ""
        for line in text.splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                told = json.loads(line)
                self._keep(told["row"], told["version"], [Figure(**each) for each in told["figures"]], told["commands"])
        if text and not text.endswith("\n"):
            self._append("")

    def runs(self, row: str) -> Mapping[str, Sequence[Sequence[Figure]]]:
        """By version: the figures of each round."""
        return self._runs[row]

    def count(self, row: str, version: str) -> int:
        """Rounds that were run to their end."""
        return len(self._runs[row][version])

    def add(self, row: str, version: str, figures: Sequence[Figure], commands: Mapping[str, str]) -> None:
        self._keep(row, version, list(figures), commands)
        told = {"row": row, "version": version, "figures": [asdict(each) for each in figures], "commands": commands}
        self._append(json.dumps(told))

    def _keep(self, row: str, version: str, figures: list[Figure], commands: Mapping[str, str]) -> None:
        self._runs[row][version].append(figures)
        self.commands |= commands

    def _append(self, line: str) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(line + "\n")
