"""Local clusters for tests: free ports, short ZooKeeper sessions, nothing that must survive a power cut."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from barnabas.launcher.cluster import LocalCluster
from barnabas.launcher.jars import JarsUnavailable, zookeeper_class_path
from barnabas.launcher.java import JavaMissing, find_java
from barnabas.launcher.zookeeper import ZooKeeperSettings

SESSION_TIMEOUT_MS = 2_000


def new_cluster(directory: Path, *, brokers: int = 1, properties: Mapping[str, str] | None = None) -> LocalCluster:
    """A cluster that is not started yet. Skips where ZooKeeper could not be started."""
    try:
        find_java()
        zookeeper_class_path()
    except (JavaMissing, JarsUnavailable) as error:
        pytest.skip(str(error))
    return LocalCluster(
        directory,
        brokers=brokers,
        port=0,
        zookeeper_port=0,
        properties={"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS), **(properties or {})},
        zookeeper_settings=ZooKeeperSettings(fsync=False),
    )
