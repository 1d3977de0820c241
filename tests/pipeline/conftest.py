"""One Spark session for all tests of the pipeline: it takes some ten seconds to start and to warm up."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.pipeline.session import SparkUnavailable, new_session
from tests.support.kafka_jars import SPARK_CONNECTOR_JARS, JarsNotAvailable, class_path

_TIMEOUT_S = 600
"""For tests that name no time of their own. Each query starts Python workers; on a busy machine the first one may take
minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


@pytest.fixture(scope="session")
def official_connector() -> str:
    """The jars of Spark's own Kafka source and sink, format `kafka`, which the session `spark` has where they are."""
    try:
        return class_path(SPARK_CONNECTOR_JARS)
    except JarsNotAvailable as error:
        pytest.skip(str(error))


def _connector_settings() -> dict[str, str]:
    try:
        return {"spark.jars": class_path(SPARK_CONNECTOR_JARS).replace(os.pathsep, ",")}
    except JarsNotAvailable:
        return {}


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
        **_connector_settings(),
    }
    try:
        session = new_session("tests of the pipeline", master="local[2]", settings=settings)
    except SparkUnavailable as error:
        pytest.fail(str(error))
    yield session
    session.stop()
