import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.launcher import jars
from barnabas.launcher.jars import Jar, JarsUnavailable, zookeeper_class_path

CONTENT = b"not really a jar"


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> tuple[Jar, ...]:
    """Two small artifacts in the place of the eight real ones."""
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    small = (Jar("g", "zookeeper", "3.9.5", sha256), Jar("g", "zookeeper-jute", "3.9.5", sha256))
    monkeypatch.setattr(jars, "ZOOKEEPER_JARS", small)
    return small


def fetch_of(content: bytes, calls: list[str]) -> Callable[[Jar, Path], Path]:
    def fetch(jar: Jar, folder: Path) -> Path:
        calls.append(jar.artifact)
        path = folder / "deep" / "x.jar"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    return fetch


def unreachable(jar: Jar, folder: Path) -> Path:
    raise OSError("no route")


def folder_with(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(b"")
    return folder


def test_jars_are_fetched_once_and_then_come_from_the_cache(pinned: tuple[Jar, ...], tmp_path: Path) -> None:
    calls: list[str] = []
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    first = zookeeper_class_path(environment, fetch=fetch_of(CONTENT, calls))
    second = zookeeper_class_path(environment, fetch=fetch_of(CONTENT, calls))
    cache = tmp_path / "barnabas" / "zookeeper-3.9.5"
    assert first == second == [cache / "zookeeper-3.9.5.jar", cache / "zookeeper-jute-3.9.5.jar"]
    assert calls == ["zookeeper", "zookeeper-jute"]
    assert sorted(path.name for path in cache.iterdir()) == ["zookeeper-3.9.5.jar", "zookeeper-jute-3.9.5.jar"]


def test_a_damaged_jar_in_the_cache_is_fetched_again(pinned: tuple[Jar, ...], tmp_path: Path) -> None:
    calls: list[str] = []
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    first, _ = zookeeper_class_path(environment, fetch=fetch_of(CONTENT, calls))
    first.write_bytes(CONTENT[:-1])
    zookeeper_class_path(environment, fetch=fetch_of(CONTENT, calls))
    assert calls == ["zookeeper", "zookeeper-jute", "zookeeper"]
    assert first.read_bytes() == CONTENT


def test_a_download_with_another_hash_never_enters_the_cache(pinned: tuple[Jar, ...], tmp_path: Path) -> None:
    with pytest.raises(JarsUnavailable, match="SHA-256"):
        zookeeper_class_path(
            {"XDG_CACHE_HOME": str(tmp_path)}, fetch=fetch_of(b"other", []), pyspark_jars=tmp_path / "none"
        )
    assert list(tmp_path.rglob("*.jar")) == []


def test_pysparks_jars_serve_in_whatever_version_where_maven_cannot_be_reached(
    pinned: tuple[Jar, ...], tmp_path: Path
) -> None:
    folder = folder_with(tmp_path / "jars", "zookeeper-3.9.9.jar", "zookeeper-jute-3.9.9.jar", "zookeeper.txt")
    found = zookeeper_class_path({"XDG_CACHE_HOME": str(tmp_path)}, fetch=unreachable, pyspark_jars=folder)
    assert [path.name for path in found] == ["zookeeper-3.9.9.jar", "zookeeper-jute-3.9.9.jar"]


def test_a_named_folder_wins_and_nothing_is_fetched(pinned: tuple[Jar, ...], tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "jars", "zookeeper-1.jar", "zookeeper-jute-1.jar")
    found = zookeeper_class_path({"BARNABAS_ZOOKEEPER_JARS": str(folder)}, fetch=unreachable)
    assert [path.name for path in found] == ["zookeeper-1.jar", "zookeeper-jute-1.jar"]


def test_a_named_folder_that_lacks_a_jar_is_refused_by_name(pinned: tuple[Jar, ...], tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "jars", "zookeeper-jute-1.jar")
    with pytest.raises(JarsUnavailable, match=r"lacks zookeeper$"):
        zookeeper_class_path({"BARNABAS_ZOOKEEPER_JARS": str(folder)}, fetch=unreachable)


def test_a_cache_that_cannot_be_written_is_one_more_reason_to_look_at_pyspark(
    pinned: tuple[Jar, ...], tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    with pytest.raises(JarsUnavailable, match=r"cannot be written.*lacks zookeeper, zookeeper-jute"):
        zookeeper_class_path({"XDG_CACHE_HOME": str(blocked)}, fetch=unreachable, pyspark_jars=tmp_path)


def test_the_eight_jars_are_pinned_by_hash() -> None:
    assert len(jars.ZOOKEEPER_JARS) == 8
    assert all(len(bytes.fromhex(jar.sha256)) == 32 for jar in jars.ZOOKEEPER_JARS)
