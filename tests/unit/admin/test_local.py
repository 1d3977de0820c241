"""What `barnabas up` says when it leaves a cluster running."""

from pathlib import Path
from typing import ClassVar

import pytest

from barnabas.launcher.cluster_status import ClusterStatus, ProcessStatus
from tests.unit.admin.conftest import Run


class Started:
    """A cluster that is up at once."""

    directory: ClassVar = Path("d")
    is_running: ClassVar = False

    def __init__(self, data: Path, **_: object) -> None: ...

    def start(self) -> ClusterStatus:
        member = ProcessStatus("127.0.0.1", 9092, 1, "running", Path("log"))
        return ClusterStatus(Path("d"), member, {1: member}, 1)


@pytest.mark.parametrize(
    ("by", "arguments", "says"),
    [
        (None, (), "`barnabas down` stops it, `barnabas status` shows it"),
        (
            None,
            ("--data", "a b"),
            "`barnabas down --data 'a b'` stops it, `barnabas status --data 'a b'` shows it",
        ),
        ("make", (), "`make down` stops it, `make status` shows it"),
        (
            "make",
            ("--data", "there"),
            "`make down ARGS='--data there'` stops it, `make status ARGS='--data there'` shows it",
        ),
    ],
)
def test_what_stops_a_cluster_names_its_directory_and_is_typed_as_its_start_was(
    run: Run, monkeypatch: pytest.MonkeyPatch, by: str | None, arguments: tuple[str, ...], says: str
) -> None:
    monkeypatch.setattr("barnabas.admin.local.LocalCluster", Started)
    monkeypatch.delenv("BARNABAS_STARTED_BY", raising=False)
    if by is not None:
        monkeypatch.setenv("BARNABAS_STARTED_BY", by)
    ran = run("up", "--detach", *arguments)
    assert ran.status == 0
    assert ran.lines[-1] == says
