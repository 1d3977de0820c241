"""A real ZooKeeper for tests: one process per test session, a chroot of its own per test.

Use it with `from tests.support.zookeeper import chroot, zookeeper_process` in the folder's conftest. Where Java or the
jars cannot be had the tests skip with that reason.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.launcher.jars import JarsUnavailable, zookeeper_class_path
from barnabas.launcher.java import JavaMissing, find_java
from barnabas.launcher.zookeeper import LocalZooKeeper, ZooKeeperSettings

# Short ticks let sessions of a second expire in a second; nothing here must survive a power cut.
SETTINGS = ZooKeeperSettings(tick_time_ms=200, min_session_timeout_ms=400, fsync=False)

_numbers = itertools.count(1)


def new_zookeeper(directory: Path, *, port: int = 0, settings: ZooKeeperSettings = SETTINGS) -> LocalZooKeeper:
    """One that is not started yet, for tests that kill or pause it. Skips where it could not be started."""
    try:
        java, class_path = find_java(), zookeeper_class_path()
    except (JavaMissing, JarsUnavailable) as error:
        pytest.skip(str(error))
    return LocalZooKeeper(directory, port=port, settings=settings, java=java, class_path=class_path)


@pytest.fixture(scope="session")
def zookeeper_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    """The ZooKeeper that all tests share: leave it running."""
    with new_zookeeper(tmp_path_factory.mktemp("zookeeper")) as zookeeper:
        yield zookeeper


@pytest.fixture
def chroot(zookeeper_process: LocalZooKeeper) -> str:
    """A connect string whose chroot no other test has; whoever connects creates it."""
    return f"{zookeeper_process.connect_string}/test-{next(_numbers)}"
