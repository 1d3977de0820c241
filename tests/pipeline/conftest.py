"""One Spark session for all tests of the pipeline: it takes some ten seconds to start and to warm up."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.pipeline.session import SparkUnavailable, new_session

_TIMEOUT_S = 600
"""Each query starts Python workers; on a busy machine the first one may take minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two cores of this machine, with Python workers of the Python that runs the tests."""
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.enabled": "false",
    }
    try:
        session = new_session("tests of the pipeline", master="local[2]", settings=settings)
    except SparkUnavailable as error:
        pytest.fail(str(error))
    yield session
    session.stop()
