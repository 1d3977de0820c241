"""A stopping broker asks the controller to move what it leads."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from broker.controlled_shutdown import Handover
from broker.metadata_view import MetadataView
from controller.commands import ControlledShutdown, ControlledShutdownResult, LiveBroker, UpdateMetadata
from controller.control_plane import ControllerUnreachable
from tests.support.virtual_time import virtual_time
from tests.unit.broker.small_broker import make_config

DONE = ControlledShutdownResult()
REMAINING = ControlledShutdownResult(remaining=[TopicPartition("t", 0)])
NOT_CONTROLLER = ControlledShutdownResult(ErrorCode.NOT_CONTROLLER)
SILENT = ControllerUnreachable("planted")


class Leaving:
    """Broker 1, which knows of controller 2 and is about to stop; the controller answers as a script says."""

    def __init__(self, *script: ControlledShutdownResult | ControllerUnreachable, **keys: str) -> None:
        given = {name.replace("_", "."): text for name, text in keys.items()}
        self.script = list(script)
        self.asked: list[tuple[str, object, int]] = []
        self.metadata = MetadataView()
        self.zk: Any = SimpleNamespace(is_connected=True)
        self.handover = Handover(
            BrokerId(1),
            config=make_config(given),
            metadata=self.metadata,
            control_plane=self,  # type: ignore[arg-type]
            broker_epoch=lambda: BrokerEpoch(7),
            zk=self.zk,
        )
        brokers = tuple(LiveBroker(BrokerId(each), (), None, f"host-{each}:9") for each in (1, 2))
        self.metadata.apply(UpdateMetadata(BrokerId(2), ControllerEpoch(1), BrokerEpoch(7), [], brokers))

    async def call(self, endpoint: str, request: object, *, timeout_ms: int) -> ControlledShutdownResult:
        self.asked.append((endpoint, request, timeout_ms))
        answer = self.script.pop(0)
        if isinstance(answer, ControllerUnreachable):
            raise answer
        return answer


@virtual_time
async def test_the_controller_is_asked_once_when_all_is_handed_over() -> None:
    leaving = Leaving(DONE, controller_socket_timeout_ms="1234")
    assert await leaving.handover.run()
    assert leaving.asked == [("host-2:9", ControlledShutdown(BrokerId(1), BrokerEpoch(7)), 1234)]


@pytest.mark.parametrize("first", [REMAINING, NOT_CONTROLLER, SILENT])
def test_it_is_asked_again_after_the_backoff(first: ControlledShutdownResult | ControllerUnreachable) -> None:
    @virtual_time
    async def run() -> None:
        leaving = Leaving(first, DONE, controlled_shutdown_retry_backoff_ms="700")
        before = asyncio.get_running_loop().time()
        assert await leaving.handover.run()
        assert len(leaving.asked) == 2
        assert asyncio.get_running_loop().time() - before == pytest.approx(0.7)

    run()


@virtual_time
async def test_it_is_asked_as_often_as_is_set() -> None:
    leaving = Leaving(*[REMAINING] * 5, controlled_shutdown_max_retries="4")
    assert not await leaving.handover.run()
    assert len(leaving.asked) == 4


@virtual_time
async def test_it_is_not_asked_where_that_is_switched_off() -> None:
    leaving = Leaving(controlled_shutdown_enable="false")
    assert not await leaving.handover.run()
    assert leaving.asked == []


@virtual_time
async def test_it_is_asked_once_while_zookeeper_is_away() -> None:
    leaving = Leaving(SILENT)
    leaving.zk.is_connected = False
    assert not await leaving.handover.run()
    assert len(leaving.asked) == 1


@virtual_time
async def test_a_broker_that_knows_no_controller_stops_too() -> None:
    leaving = Leaving()
    leaving.metadata.apply(UpdateMetadata(BrokerId(9), ControllerEpoch(2), BrokerEpoch(7), [], ()))
    assert not await leaving.handover.run()
