"""A cluster of containers, as `docker compose up --build` makes it, for the tests of this folder.

It has a project name and ports of its own, so that it stands beside a cluster that somebody uses. What an earlier run
that was killed left behind is removed first.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from barnabas.launcher.sockets import free_port
from tests.compose.cluster import ComposedCluster

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = "barnabas-test"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            # The first one builds the image, and compiles for that.
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposedCluster]:
    if shutil.which("docker") is None:
        pytest.skip("there is no docker")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no Docker engine answers")
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("docker has no plugin `compose`")
    first = free_port(count=3)
    ports = [first, first + 1, first + 2]
    settings = tmp_path_factory.mktemp("compose") / "settings"
    lines = [f"COMPOSE_PROJECT_NAME={PROJECT}", *(f"BARNABAS_PORT_{n}={port}" for n, port in enumerate(ports, 1))]
    settings.write_text("\n".join(lines) + "\n")
    # Ryuk, which removes what a test run leaves, is an image from a registry; `stop` and the line below do its work.
    os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"
    cluster = ComposedCluster(ROOT, settings, ports, project=PROJECT)
    cluster.remove()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()
