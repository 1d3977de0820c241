"""Debian's changelogs through the pipeline: `python -m bench.pipeline_demo`, or `make pipeline-demo`.

The entries that stand under /usr/share/doc are written to a topic, with counts of what was sent. The jobs load, audit
and activity do their work, each by its command; then it shows what came out, draws it, and tells where everything lies.
Ends with 0 only where the audit balances and every entry was counted, with 1 where not, with 2 where nothing could be
tried.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas.client import ClientError
from barnabas.pipeline.lake.tables import open_table
from barnabas.pipeline.session import SparkUnavailable, check_java
from bench.pipeline_demo.changelogs import FOLDER, Entry, NoChangelogs, Reading, changelog_files, read_all
from bench.pipeline_demo.cluster import feed, read_json, running_cluster
from bench.pipeline_demo.commands import CommandFailed, read_report, run_job
from bench.pipeline_demo.configs import Names, activity_config, audit_config, load_config
from bench.pipeline_demo.plot import draw

_SHOWN = 8
_JOBS = (("load", load_config), ("audit", audit_config), ("activity", activity_config))


class DemoFailed(Exception):
    """What came out is not what went in."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline_demo")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", help="a cluster; started here where none answers")
    parser.add_argument("--folder", type=Path, default=Path(".reports/pipeline-demo"), help="where its files go")
    parser.add_argument("--changelogs", type=Path, default=FOLDER, help="a copy of /usr/share/doc")
    parser.add_argument("--report", type=Path, help="write what was done to this file, as JSON")
    options = parser.parse_args(arguments)
    run = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    names = Names(options.bootstrap, options.folder.resolve() / run, run)
    told: dict[str, Any] = {"job": "pipeline-demo", "started": datetime.now(UTC).isoformat(), "status": "failed"}
    try:
        status = demonstrate(names, options.changelogs, told)
    except (SparkUnavailable, NoChangelogs) as error:
        status = _complain(told, error, 2)
    except (CommandFailed, ClientError, DemoFailed, OSError) as error:
        status = _complain(told, error, 1)
    told["ended"] = datetime.now(UTC).isoformat()
    if options.report is not None:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(json.dumps(told, indent=2) + "\n")
    return status


def demonstrate(names: Names, changelogs: Path, told: dict[str, Any]) -> int:
    """All steps; `told` gets what they did. Raises what `main` explains."""
    check_java(os.environ)
    found = Reading()
    entries = read_all(changelog_files(changelogs), found)
    if not entries:
        raise NoChangelogs(f"the changelogs under {changelogs} have no entries that are signed and dated")
    print(f"{len(entries)} entries in {found.files} changelogs under {changelogs}, {entries[0].time:%Y} to ", end="")
    print(f"{entries[-1].time:%Y}; {found.unsigned} others are not signed and dated, and left out")
    told |= {"entries": len(entries), "changelogs": found.files, "unsigned_entries": found.unsigned}
    names.folder.mkdir(parents=True)
    with running_cluster(names.bootstrap, names.folder / "cluster") as cluster:
        print(f"cluster at {names.bootstrap}: {cluster}")
        began = time.monotonic()
        asyncio.run(feed(names.bootstrap, entries, events=names.events, counts=names.counts, results=names.results))
        print(f"written to the topic {names.events} in {time.monotonic() - began:.1f} s")
        _run_jobs(names, told)
        results = read_json(names.bootstrap, names.results)
    _judge(entries, told, results)
    _show(results)
    picture = names.folder / "events.png"
    draw(_times(names.table), results, picture)
    files = {
        "table": str(names.table),
        "picture": str(picture),
        "configurations, reports and logs of the jobs": str(names.folder),
        "cluster": cluster,
    }
    told |= {"status": "succeeded", "files": files, "topics": [names.events, names.counts, names.results]}
    print("\nThe audit balances. Where everything lies:")
    for what, where in files.items():
        print(f"    {what}: {where}")
    return 0


def _run_jobs(names: Names, told: dict[str, Any]) -> None:
    for job, config in _JOBS:
        began = time.monotonic()
        print(f"\nbarnabas pipeline {job} {names.folder / f'{job}.toml'}", flush=True)
        try:
            printed, told[job] = run_job(job, config(names), names.folder)
        except CommandFailed:
            report = names.folder / f"{job}.json"
            told[job] = read_report(report) if report.exists() else None
            raise
        if job == "audit":
            # The report beside the configuration has the hours that balance too, thousands of them.
            facts = told[job]["facts"]
            told[job] |= {"facts": facts | {"cells": [each for each in facts["cells"] if not each["balances"]]}}
        print(f"{printed}done in {time.monotonic() - began:.0f} s, Spark's start included")


def _judge(entries: Sequence[Entry], told: Mapping[str, Any], results: Iterable[Mapping[str, Any]]) -> None:
    """Whether each job saw every entry. Raises DemoFailed."""
    audited, activity = told["audit"]["counts"], told["activity"]["counts"]
    for what, count in (
        ("counted by the feed", audited["producer_records"]),
        ("in the topic", audited["topic_records"]),
        ("in the table", audited["table_rows"] + audited["dead_letters"]),
        ("read by the activity job", activity["urgencies.records"]),
    ):
        if count != len(entries):
            raise DemoFailed(f"{len(entries)} entries were read from the changelogs, {count} are {what}")
    closed = sum(each["events"] for each in results if each["name"] == "urgencies")
    if closed + activity["urgencies.late"] > len(entries):
        raise DemoFailed(f"the windows hold {closed} entries, more than the {len(entries)} that there are")


def _show(results: Sequence[Mapping[str, Any]]) -> None:
    """Tables of what the activity job found."""
    packages = sorted((each for each in results if each["name"] == "packages"), key=lambda each: -each["events"])
    sessions = sorted((each for each in results if each["name"] == "sessions"), key=lambda each: -each["events"])
    print(
        f"\nof {len(packages)} counts of a package in 30 days the highest, and of {len(sessions)} sessions the longest:"
    )
    print(f"{'package':32} {'30 days from':12} {'entries':>7}    {'maintainer':28} {'from':12} {'entries':>7}")
    for package, session in zip(packages[:_SHOWN], sessions[:_SHOWN], strict=False):
        left = f"{package['key']['page'][:32]:32} {package['start'][:10]:12} {package['events']:7}"
        print(f"{left}    {session['key']['member'][:28]:28} {session['start'][:10]:12} {session['events']:7}")


def _times(table: Path) -> list[datetime]:
    """The times of all rows of the table, by its own files."""
    lake = open_table(str(table))
    files = [pq.read_table(f"{lake.location}/{each.path}", columns=["timestamp"]) for each in lake.snapshot().files]
    times: list[datetime] = pa.concat_tables(files)["timestamp"].to_pylist()
    return times


def _complain(told: dict[str, Any], error: Exception, status: int) -> int:
    told["error"] = str(error)
    print(f"\npipeline-demo: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
