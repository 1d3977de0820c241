"""Fixtures of the tests that kill, starve and cut off real brokers."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import soak
from tests.support.broker_process import BrokerProcess
from tests.support.zookeeper import chroot, zookeeper_process

__all__ = ["chroot", "zookeeper_process"]

MakeBroker = Callable[..., BrokerProcess]


@pytest.fixture
def soak_minutes() -> float:
    """How long the tests that can go on should; 0 in an ordinary run."""
    return soak.minutes()


@pytest.fixture
def make_broker(tmp_path: Path, chroot: str) -> Iterator[MakeBroker]:
    """Makes brokers of one cluster, which are not started yet; those that run at the end of the test are ended."""
    made: list[BrokerProcess] = []

    def make(settings: Mapping[str, str] | None = None, *, broker_id: int = 1, **options: Any) -> BrokerProcess:
        short_session = {"zookeeper.session.timeout.ms": "1500", "barnabas.metrics.port": "0"}
        broker = BrokerProcess(
            tmp_path / f"broker-{broker_id}-{len(made)}",
            options.pop("zookeeper", chroot),
            {**short_session, **(settings or {})},
            broker_id=broker_id,
            **options,
        )
        made.append(broker)
        return broker

    try:
        yield make
    finally:
        for broker in made:
            broker.kill()
