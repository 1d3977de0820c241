"""What a broker registers about its last stop, and when the doubt is over."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.storage.boot_record import BOOT_RECORD, BootRecord
from barnabas.storage.file_names import CLEAN_SHUTDOWN_MARKER
from tests.unit.broker.whole_broker import BrokerHost, make_topic, until
from zk_schema import paths
from zk_schema.payloads import BrokerRegistration

ME = BrokerId(1)
T0 = TopicPartition("t", 0)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[BrokerHost]:
    host = BrokerHost(tmp_path)
    yield host
    await host.close()


def registration(host: BrokerHost) -> BrokerRegistration:
    znode = host.zookeeper.tree.get(paths.broker(ME))
    assert znode is not None
    return BrokerRegistration.decode(znode.data)


def records(host: BrokerHost) -> list[BootRecord]:
    return [BootRecord.decode((host.directory / each / BOOT_RECORD).read_bytes()) for each in "ab"]


def lose_the_markers(host: BrokerHost, directories: str = "ab") -> None:
    """As if the broker had not stopped, but ended."""
    for each in directories:
        (host.directory / each / CLEAN_SHUTDOWN_MARKER).unlink()


async def lived(host: BrokerHost) -> None:
    """A broker that ran on boot-1, whose doubt about its new directories was over, and that stopped."""
    broker = await host.start()
    await until(lambda: records(host) == [BootRecord("boot-1", is_intact=True)] * 2)
    await broker.stop()


@pytest.mark.parametrize(
    ("boot_id", "without_marker", "is_intact"),
    [
        ("boot-1", "", True),
        ("boot-1", "ab", True),
        ("boot-2", "", True),
        ("boot-2", "ab", False),
        ("boot-2", "b", False),
        ("", "ab", False),
    ],
)
async def test_only_a_machine_that_went_down_under_the_broker_is_doubtful(
    host: BrokerHost, boot_id: str, without_marker: str, *, is_intact: bool
) -> None:
    await lived(host)
    lose_the_markers(host, without_marker)
    host.boot_id = boot_id
    broker = await host.start()
    assert (registration(host).boot_id, registration(host).clean_stop) == (boot_id, is_intact)
    await broker.stop()


async def test_the_doubt_outlives_a_clean_stop_and_ends_when_every_partition_here_has_a_leader(
    host: BrokerHost,
) -> None:
    await lived(host)
    lose_the_markers(host)
    host.boot_id = "boot-2"
    # A log of which no controller knows has no leader.
    (host.directory / "a" / "stray-0").mkdir()
    for _ in range(2):
        broker = await host.start()
        assert registration(host).clean_stop is False
        await asyncio.sleep(0.4)
        assert records(host) == [BootRecord("boot-2", is_intact=False)] * 2
        await broker.stop()
    shutil.rmtree(host.directory / "a" / "stray-0")
    broker = await host.start()
    await make_topic(broker)
    assert registration(host).clean_stop is False
    await until(lambda: records(host) == [BootRecord("boot-2", is_intact=True)] * 2)
    host.zookeeper.expire(host.sessions[-1])
    await until(lambda: host.zookeeper.tree.get(paths.broker(ME)) is not None and registration(host).clean_stop)
    await broker.stop()
