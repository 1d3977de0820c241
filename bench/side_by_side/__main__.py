"""Barnabas beside Apache Kafka, in one run on one machine.

`python -m bench.side_by_side [--full] [--row TEXT ...] [--rounds 5] [--against 2.7.2 ...] [--smoke] [--list]`. Without
`--full` the core rows are run, with it all the others, once. `--row` chooses by a part of the name. The systems take
turns on every row; figures are medians. Results go to `bench/results`, which is not in the repository; `--keep FILE`
writes the table there too. Each run is in a journal there when it is done (`.jsonl`): `--resume` that, with the same
rows and rounds, commit and machine, runs what is missing, and `--minutes` (of the core 95) ends in time with what there
is. Needs a full Java and Kafka's jars (Maven Central, pinned); kcat for the rows of librdkafka.

A row that a client limited, or ours the disk, says nothing of brokers' rates: it is judged by what their CPU cost. One
that a system has no figure of is not judged, nor is a cost that was counted from a few ticks of the clock. Of a smoke
run nothing is, and its results go where they are removed at its end. What else used the machine is in each run's line,
and in the table where it was more than 0.3 of a core. The status is 1 where a run failed or a core row lacks a system,
2 where nothing could be run, as without Kafka's jars.
"""

import argparse
import contextlib
import json
import math
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

from barnabas.launcher.compiled import is_current
from barnabas.launcher.jars import JARS_VARIABLE, ZOOKEEPER_VERSION
from barnabas.runtime.packages import own_root
from bench.ending import exit_on_sigterm
from bench.guest_memory import kept_from_host
from bench.kafka_releases import KAFKA_3_9, RELEASES
from bench.side_by_side import contestants, report
from bench.side_by_side.comparison import Comparison, Plan, Runner
from bench.side_by_side.contestants import SETTINGS, Contestant
from bench.side_by_side.curves import draw
from bench.side_by_side.journal import Journal, OtherOrigin
from bench.side_by_side.row import Row
from bench.side_by_side.rows import coordinators, growth, life, requests, volume
from bench.side_by_side.usage import usable_cpus
from tests.support.kafka_jars import JarsNotAvailable, java_command

RESULTS: Final = Path(__file__).parents[1] / "results"
_CONGESTION_CONTROL: Final = Path("/proc/sys/net/ipv4/tcp_congestion_control")
_SMOKE_SCALE: Final = 0.005
_CORE_MINUTES: Final = 95.0


def all_rows() -> list[Row]:
    """Core rows and others, of all kinds."""
    return [*volume.rows(), *requests.rows(), *life.rows(), *coordinators.rows(), *growth.rows()]


def chosen_rows(names: list[str], *, full: bool) -> list[Row]:
    """Those with one of the names, and of a name that is no row's those with it in theirs; else core rows or others."""
    rows = all_rows()
    if not names:
        return [row for row in rows if row.is_core is not full]
    if unknown := [name for name in names if not any(name in row.name for row in rows)]:
        raise NoSuchRow(f"no row has {' or '.join(unknown)} in its name")
    exact = {row.name for row in rows} & set(names)
    return [row for row in rows if row.name in exact or any(name in row.name for name in set(names) - exact)]


class NoSuchRow(Exception):
    """Something was asked for that no row has in its name."""


def _first_line(*command: str) -> str:
    """Of what a program says of itself; empty where it is not."""
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=RESULTS.parents[1])
    except (OSError, subprocess.CalledProcessError):
        return ""
    return (told.stdout or told.stderr).strip().split("\n")[0]


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def file_system(directory: str) -> str:
    """Of what kind the one is that a directory is on."""
    mounted = [each for each in psutil.disk_partitions(all=True) if Path(directory).is_relative_to(each.mountpoint)]
    return max(mounted, key=lambda each: len(each.mountpoint)).fstype


def _about(given: argparse.Namespace, rounds: int, command: Sequence[str]) -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": len(usable_cpus()),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "python": platform.python_version(),
        "processor": _processor(),
        "file_system": file_system(tempfile.gettempdir()),
        "tcp_congestion_control": _CONGESTION_CONTROL.read_text().strip(),
        "barnabas": _first_line("git", "describe", "--always", "--dirty"),
        "way_of_records": "compiled" if is_current(own_root()) else "interpreted",
        "java": _first_line(java_command(), "-version"),
        "kcat": _first_line("sh", "-c", "kcat -V | grep -o 'librdkafka.*'"),
        "zookeeper": f"of {JARS_VARIABLE}" if os.environ.get(JARS_VARIABLE) else ZOOKEEPER_VERSION,
        "kafka_clients": KAFKA_3_9.version,
        "against": given.against,
        "server_properties": SETTINGS,
        "rounds": rounds,
        "command": shlex.join(["python", "-m", "bench.side_by_side", *command]),
    }


def _origin(about: Mapping[str, Any]) -> dict[str, Any]:
    """What has to be the same for figures to stand beside each other."""
    machine = ("machine", "cpus", "memory_gb", "processor", "file_system", "tcp_congestion_control")
    software = ("python", "java", "kcat", "zookeeper", "barnabas", "way_of_records")
    return {name: about[name] for name in (*machine, *software)}


def _tell(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="the rows that are not core, in one round")
    parser.add_argument(
        "--row", action="append", default=[], help="the row, or those with this in their name; may be repeated"
    )
    parser.add_argument("--rounds", type=int, default=None, help="5, with --full 1")
    parser.add_argument(
        "--against", nargs="*", choices=list(RELEASES), default=list(RELEASES), help="releases of Kafka"
    )
    parser.add_argument("--smoke", action="store_true", help="tiny loads, one round, nothing warmed: that it runs")
    parser.add_argument("--keep", type=Path, default=None, help="write the table to this file too")
    parser.add_argument("--minutes", type=float, default=None, help="begin no run after so many; of the core 95")
    parser.add_argument("--resume", type=Path, default=None, help="the journal of a run that broke off: go on with it")
    parser.add_argument("--list", action="store_true", help="print all rows, the core ones marked; with --row, those")
    given = parser.parse_args(arguments)
    if given.rounds is not None and given.rounds < 1:
        parser.error(f"--rounds {given.rounds}: at least 1")
    if given.smoke and given.resume is not None:
        parser.error("a smoke run's figures are not kept beside others: --smoke and --resume exclude each other")
    return given


def systems_with(releases: Sequence[str]) -> list[Contestant]:
    """Barnabas, and these of Kafka. Raises JarsNotAvailable."""
    return [contestants.barnabas(), *(contestants.kafka(RELEASES[version]) for version in releases)]


def main(
    arguments: Sequence[str] | None = None,
    *,
    rows_of: Callable[..., list[Row]] = chosen_rows,
    systems_of: Callable[[Sequence[str]], list[Contestant]] = systems_with,
) -> int:
    given = _arguments(arguments)
    try:
        rows = all_rows() if given.list and not given.row else rows_of(given.row, full=given.full)
    except NoSuchRow as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if given.list:
        sys.stdout.write("".join(f"{'core' if row.is_core else '':4}  {row.name}\n" for row in rows))
        return 0
    rounds = given.rounds or (1 if given.full or given.smoke else 5)
    is_core = not (given.full or given.row or given.smoke)
    minutes = given.minutes if given.minutes is not None else _CORE_MINUTES if is_core else math.inf
    ends_s = time.monotonic() + minutes * 60
    plan = Plan(
        rounds, _SMOKE_SCALE if given.smoke else 1.0, warms=not given.smoke, ends_s=ends_s, named=bool(given.row)
    )
    try:
        systems = systems_of(given.against)
        about = _about(given, rounds, sys.argv[1:] if arguments is None else arguments)
    except JarsNotAvailable as error:
        sys.stderr.write(f"Kafka cannot be run here: {error}\n")
        return 2
    if about["file_system"] == "tmpfs" and not given.smoke:
        sys.stderr.write(f"{tempfile.gettempdir()} is in memory (tmpfs): set TMPDIR to a directory on a disk\n")
        return 2
    if given.resume is not None and about["barnabas"].endswith("-dirty"):
        sys.stderr.write(
            f"{about['barnabas']}: what is not committed may be another than when the run began; commit it\n"
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-", ignore_cleanup_errors=True) as directory:
        folder = Path(directory) / "results" if given.smoke else RESULTS
        folder.mkdir(exist_ok=True)
        stem = folder / f"side-by-side-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
        try:
            journal = Journal(given.resume or stem.with_suffix(".jsonl"), _origin(about))
        except OtherOrigin as error:
            sys.stderr.write(f"{error}\n")
            return 2
        with contextlib.nullcontext() if given.smoke else kept_from_host():
            runner = Runner(systems, plan, Path(directory), journal=journal, tell=_tell)
            try:
                runner.compare(rows)
            finally:
                # Also of a run that is ended: what was measured is told.
                comparison = runner.found(rows)
                _write(comparison, about, stem, given.keep)
    return int(runner.has_failed(rows))


def _write(comparison: Comparison, about: Mapping[str, Any], stem: Path, keep: Path | None) -> None:
    table = report.as_markdown(comparison, about)
    sys.stdout.write(table)
    if keep is not None:
        keep.write_text(table)
    stem.with_suffix(".md").write_text(table)
    stem.with_suffix(".json").write_text(json.dumps(report.as_json(comparison, about), indent=1) + "\n")
    draw(comparison.results, stem)


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())
