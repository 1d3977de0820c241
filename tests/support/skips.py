"""The rule on skips: where CI=true a skipped test is a failure, unless a row of `allowed_skips.toml` names it.

A test that is expected to fail counts as skipped. The rows are few, exact (one id, no patterns), each with its reason
and date; a run prints them all at its end, also the ones that were not needed.
"""

import datetime as dt
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST_ROWS: Final = 10


class BadAllowedSkips(Exception):
    """The list is not what it has to be; the message names the row."""


@dataclass(frozen=True, slots=True)
class AllowedSkip:
    """One row: the test's id, why it may be skipped, since when."""

    id: str
    reason: str
    date: dt.date


def parse_allowed_skips(text: str) -> dict[str, AllowedSkip]:
    """Rows by test id; BadAllowedSkips on a row without a value, a second row for one test, or too many rows."""
    rows = tomllib.loads(text).get("skip", [])
    if len(rows) > MOST_ROWS:
        raise BadAllowedSkips(f"{len(rows)} rows; at most {MOST_ROWS} tests may be skipped")
    allowed: dict[str, AllowedSkip] = {}
    for number, row in enumerate(rows, start=1):
        if set(row) != {"id", "reason", "date"}:
            raise BadAllowedSkips(f"row {number} has {sorted(row)}; it needs id, reason and date, nothing else")
        skip = AllowedSkip(row["id"], row["reason"], row["date"])
        if not isinstance(skip.date, dt.date) or not skip.reason.strip() or "::" not in skip.id:
            raise BadAllowedSkips(f"row {number} ({skip.id}): a whole test id, a reason and a TOML date are needed")
        if skip.id in allowed:
            raise BadAllowedSkips(f"row {number}: {skip.id} stands there twice")
        allowed[skip.id] = skip
    return allowed


def read_allowed_skips(root: Path) -> dict[str, AllowedSkip]:
    """The rows of the project at `root`."""
    return parse_allowed_skips((root / "tests" / "allowed_skips.toml").read_text())


def refusal(test_id: str, reason: str, allowed: dict[str, AllowedSkip]) -> str | None:
    """Why this skip fails the run, or None when a row allows it."""
    if test_id in allowed:
        return None
    return f"{test_id} was skipped ({reason}), and with CI=true only the rows of tests/allowed_skips.toml may be"


def summary(allowed: dict[str, AllowedSkip], skipped: Iterable[str]) -> list[str]:
    """The lines for the end of a run: each row and whether it was used."""
    used = set(skipped)
    if not allowed:
        return ["no test may be skipped"]
    return [
        f"{'skipped' if row.id in used else 'not skipped here'}: {row.id} ({row.reason}; since {row.date})"
        for row in allowed.values()
    ]
