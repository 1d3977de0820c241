"""Counts the tests of several pytest runs from their JUnit reports: one line per run, and the sum as the last line.

`python -m tests.support.tally DIRECTORY...` exits 1 when something failed, or when a directory holds no report: a run
that died before it wrote its report must not look like one that had nothing to say.
"""

import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Tally:
    """How many tests of a run ended how. An error outside of a test's body counts as failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def add(self, other: "Tally") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.seconds += other.seconds

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def read_report(xml: str) -> Tally:
    """The counts of one JUnit report as pytest writes it."""
    tally = Tally()
    for suite in ET.fromstring(xml).iter("testsuite"):
        count = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
        failed = count["failures"] + count["errors"]
        passed = max(0, count["tests"] - failed - count["skipped"])
        tally.add(Tally(passed, failed, count["skipped"], float(suite.get("time", "0"))))
    return tally


def tally_directories(directories: Iterable[Path]) -> tuple[list[str], Tally, bool]:
    """A line per report, their sum, and whether all is well."""
    lines: list[str] = []
    total = Tally()
    complete = True
    for directory in directories:
        reports = sorted(directory.glob("*.xml"))
        complete = complete and bool(reports)
        for report in reports:
            tally = read_report(report.read_text())
            total.add(tally)
            lines.append(f"{directory.name}/{report.stem}: {tally} in {tally.seconds:.0f} s")
        if not reports:
            lines.append(f"{directory.name}: no report")
    return lines, total, complete and total.failed == 0 and total.passed > 0


def main() -> int:
    lines, total, well = tally_directories(Path(name) for name in sys.argv[1:])
    print("\n".join([*lines, str(total)]))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
