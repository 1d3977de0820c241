import os
from pathlib import Path

import pytest

import barnabas
from barnabas.runtime.offload import SystemOffload
from barnabas.runtime.packages import environment_with, own_root


def test_our_packages_stand_where_they_were_imported_from() -> None:
    assert own_root() == Path(barnabas.__file__).resolve().parents[1]


@pytest.mark.parametrize(("given", "path"), [(None, "/ours"), ("", "/ours"), ("/a:/b", f"/ours{os.pathsep}/a:/b")])
def test_a_child_looks_there_first(monkeypatch: pytest.MonkeyPatch, given: str | None, path: str) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if given is not None:
        monkeypatch.setenv("PYTHONPATH", given)
    monkeypatch.setenv("OTHER", "kept")
    environment = environment_with(Path("/ours"))
    assert environment["PYTHONPATH"] == path
    assert environment["OTHER"] == "kept"


async def test_a_worker_has_our_packages_whatever_stands_where_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "barnabas").mkdir()
    (tmp_path / "barnabas" / "__init__.py").write_text("raise RuntimeError('another one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    offload = SystemOffload()
    try:
        assert await offload.process(os.getcwd) == str(tmp_path)
    finally:
        offload.close()
