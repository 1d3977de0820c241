"""The demo from end to end, on a few changelogs, with a cluster of its own."""

import gzip
import json
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from barnabas.launcher.sockets import free_port

ROOT = Path(__file__).parents[3]
SECONDS = 560
PACKAGES = 3
VERSIONS = 40


def write_changelogs(folder: Path) -> int:
    """Changelogs of packages, an entry each ten days; how many entries."""
    for package in range(PACKAGES):
        place = folder / f"package-{package}"
        place.mkdir(parents=True)
        with gzip.open(place / "changelog.Debian.gz", "wt", encoding="utf-8") as file:
            for version in reversed(range(VERSIONS)):
                at = format_datetime(datetime(2000, 1, 1, 10, package, tzinfo=UTC) + timedelta(days=10 * version))
                file.write(f"package-{package} ({version}) unstable; urgency=low\n\n  * A change.\n\n")
                file.write(f" -- Member {version % 4} <m@example.org>  {at}\n\n")
    return PACKAGES * VERSIONS


def run_demo(*arguments: str | Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench.pipeline_demo", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.timeout(SECONDS + 30)
def test_events_go_through_all_jobs_and_the_audit_balances(tmp_path: Path) -> None:
    entries = write_changelogs(tmp_path / "doc")
    bootstrap = f"127.0.0.1:{free_port(count=3)}"
    report = tmp_path / "report" / "demo.json"
    done = run_demo(
        "--changelogs", tmp_path / "doc", "--folder", tmp_path / "demo", "--bootstrap", bootstrap, "--report", report
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The audit balances. Where everything lies:" in done.stdout
    told: dict[str, Any] = json.loads(report.read_text())
    assert (told["status"], told["entries"]) == ("succeeded", entries)
    assert told["load"]["status"] == told["audit"]["status"] == told["activity"]["status"] == "succeeded"
    assert told["audit"]["facts"]["balances"]
    assert told["audit"]["counts"]["table_rows"] == entries
    assert Path(told["files"]["picture"]).read_bytes().startswith(b"\x89PNG")
    # It stopped the cluster that it had started.
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(bootstrap.rpartition(":")[2]))) != 0


def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "doc").mkdir()
    report = tmp_path / "demo.json"
    done = run_demo("--changelogs", tmp_path / "doc", "--folder", tmp_path / "demo", "--report", report)
    assert done.returncode == 2
    assert "there are no changelogs of Debian packages under" in done.stderr
    assert json.loads(report.read_text())["status"] == "failed"
    write_changelogs(tmp_path / "doc")
    without_java = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = run_demo("--changelogs", tmp_path / "doc", "--folder", tmp_path / "demo", environment=without_java)
    assert done.returncode == 2
    assert "Spark needs Java 17 or later" in done.stderr
    elsewhere = run_demo(
        "--changelogs", tmp_path / "doc", "--folder", tmp_path / "demo", "--bootstrap", "nowhere.invalid:9092"
    )
    assert elsewhere.returncode == 1
    assert "no cluster answers at nowhere.invalid:9092" in elsewhere.stderr
