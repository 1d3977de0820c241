"""Every run as it was made, a line of JSON each in a file, so that a comparison that broke off goes on where it was.

Owns the figures of all runs, by row and version of the contestant. The first line says what was measured where: figures
of another commit or machine are not mixed with these.
"""

import contextlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.side_by_side.figures import Figure


class OtherOrigin(Exception):
    """A journal is of another commit or machine; the text says of which."""


class Journal:
    """Reads what the file has; `add` writes on. A last line that is torn counts for nothing. Raises OtherOrigin."""

    def __init__(self, path: Path, origin: Mapping[str, object]) -> None:
        self.commands: dict[str, str] = {}
        """How brokers and clients were started, by what each is."""
        self.incomplete: dict[tuple[str, str], str] = {}
        """By row and version: why a run does not have all figures."""
        self._path = path
        self._runs: defaultdict[str, defaultdict[str, list[list[Figure]]]] = defaultdict(lambda: defaultdict(list))
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        if not lines:
            self._append(json.dumps({"origin": origin}))
        elif (found := _origin(lines[0])) != origin:
            raise OtherOrigin(f"{path} is of {found}, and this would be {origin}")
        for line in lines[1:]:
            with contextlib.suppress(json.JSONDecodeError):
                told = json.loads(line)
                figures = [Figure(**each) for each in told["figures"]]
                self._keep(told["row"], told["version"], figures, told["commands"], told["incomplete"])
        if lines and not lines[-1].endswith("\n"):
            self._append("")

    def runs(self, row: str) -> Mapping[str, Sequence[Sequence[Figure]]]:
        """By version: the figures of each round."""
        return self._runs[row]

    def count(self, row: str, version: str) -> int:
        """Rounds that were run to their end."""
        return len(self._runs[row][version])

    def add(
        self, row: str, version: str, figures: Sequence[Figure], commands: Mapping[str, str], incomplete: str = ""
    ) -> None:
        """Keep a run; `incomplete` says why it lacks figures."""
        self._keep(row, version, list(figures), commands, incomplete)
        told = {"row": row, "version": version, "figures": [asdict(each) for each in figures], "commands": commands}
        self._append(json.dumps({**told, "incomplete": incomplete}))

    def _keep(
        self, row: str, version: str, figures: list[Figure], commands: Mapping[str, str], incomplete: str
    ) -> None:
        self._runs[row][version].append(figures)
        self.commands |= commands
        if incomplete:
            self.incomplete[row, version] = incomplete

    def _append(self, line: str) -> None:
        with self._path.open("a") as file:
            file.write(line + "\n")


def _origin(line: str) -> object:
    try:
        return json.loads(line).get("origin")
    except json.JSONDecodeError:
        return None
