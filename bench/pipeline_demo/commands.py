"""The command `barnabas` as a user calls it: what it prints is shown, what it says beside goes into a log."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("barnabas")
_SHOWN_LINES = 12


class CommandFailed(Exception):
    """A command ended with another status than 0; the text has the end of what it said."""


def barnabas(arguments: Sequence[str], log: Path) -> str:
    """Run it to its end, and give what it printed. Raises CommandFailed."""
    with log.open("ab") as said:
        done = subprocess.run([COMMAND, *arguments], stdout=subprocess.PIPE, stderr=said, check=False)
    if done.returncode:
        end = "\n    ".join(log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
        text = f"barnabas {' '.join(arguments)} ended with status {done.returncode}; the end of {log}:\n    {end}"
        raise CommandFailed(f"{done.stdout.decode(errors='replace')}{text}")
    return done.stdout.decode(errors="replace")


def run_job(name: str, config: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """Run a job of the pipeline with this configuration; what it printed, and its report. Raises CommandFailed."""
    file, report = folder / f"{name}.toml", folder / f"{name}.json"
    file.write_text(config)
    try:
        printed = barnabas(["pipeline", name, str(file), "--report", str(report)], folder / f"{name}.log")
    except CommandFailed as failed:
        if report.exists():
            raise CommandFailed(f"{failed}\nThe report {report} says: {read_report(report)['error']}") from None
        raise
    return printed, read_report(report)


def read_report(report: Path) -> dict[str, Any]:
    """The report that a job wrote."""
    found: dict[str, Any] = json.loads(report.read_text())
    return found
