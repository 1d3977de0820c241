"""DeleteTopics: who answers, what is asked of the controller, and how long is waited."""

import asyncio

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.handlers.delete_topics import handle
from tests.unit.broker.small_broker import AfterWrite, SmallBroker, make_config
from zk_schema import paths


async def delete(
    broker: SmallBroker, *names: str, version: int = 5, timeout_ms: int = 0
) -> list[tuple[str, ErrorCode, str | None]]:
    response = await handle(DeleteTopicsRequest(list(names), timeout_ms), broker.context(version))
    return [(each.name, ErrorCode(each.error_code), each.error_message) for each in response.responses]


@pytest.fixture
async def holder(broker: SmallBroker) -> SmallBroker:
    """Has the topics a and b."""
    for name in ("a", "b"):
        await broker.write_topic(name, {0: (1,)})
        broker.announce(name)
    return broker


def requested(broker: SmallBroker, name: str) -> bool:
    return broker.server.tree.get(paths.delete_topic(name)) is not None


async def test_a_broker_that_is_not_the_controller_says_so(holder: SmallBroker) -> None:
    holder.services.controller.is_active = False
    assert await delete(holder, "a") == [("a", ErrorCode.NOT_CONTROLLER, None)]
    assert not requested(holder, "a")


@pytest.mark.parametrize(("version", "error"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
async def test_where_deletion_is_disabled_nothing_is_deleted(
    holder: SmallBroker, version: int, error: ErrorCode
) -> None:
    holder.services.config = make_config({"delete.topic.enable": "false"})
    assert await delete(holder, "a", version=version) == [("a", error, None)]
    assert not requested(holder, "a")


async def test_a_deletion_is_answered_once_the_topics_are_gone(holder: SmallBroker) -> None:
    deleting = asyncio.create_task(delete(holder, "a", "b", timeout_ms=60_000))
    await holder.until(lambda: requested(holder, "a") and requested(holder, "b"))
    holder.forget("a")
    await asyncio.sleep(0)
    assert not deleting.done()
    holder.forget("b")
    assert await deleting == [("a", ErrorCode.NONE, None), ("b", ErrorCode.NONE, None)]


@pytest.mark.parametrize("timeout_ms", [0, -1, 1])
async def test_a_topic_that_is_still_there_in_the_end_timed_out(holder: SmallBroker, timeout_ms: int) -> None:
    assert await delete(holder, "a", timeout_ms=timeout_ms) == [("a", ErrorCode.REQUEST_TIMED_OUT, None)]
    assert requested(holder, "a")


async def test_without_time_to_wait_the_request_timed_out_even_if_the_topic_is_gone(holder: SmallBroker) -> None:
    holder.services.zk = AfterWrite(holder, lambda: holder.forget("a"))
    assert await delete(holder, "a", timeout_ms=0) == [("a", ErrorCode.REQUEST_TIMED_OUT, None)]


async def test_asking_again_waits_for_the_same_deletion(holder: SmallBroker) -> None:
    await delete(holder, "a")
    deleting = asyncio.create_task(delete(holder, "a", timeout_ms=60_000))
    for _ in range(10):
        await asyncio.sleep(0)
    holder.forget("a")
    assert await deleting == [("a", ErrorCode.NONE, None)]


async def test_an_unknown_topic_is_told_so_and_hinders_no_other(holder: SmallBroker) -> None:
    deleting = asyncio.create_task(delete(holder, "never", "a", "..", timeout_ms=60_000))
    await holder.until(lambda: requested(holder, "a"))
    holder.forget("a")
    assert [error for _, error, _ in await deleting] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_a_topic_that_is_gone_from_zookeeper_is_unknown(holder: SmallBroker) -> None:
    await holder.remove_topic("a")
    assert await delete(holder, "a") == [("a", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)]


async def test_a_name_given_twice_is_answered_twice(holder: SmallBroker) -> None:
    assert await delete(holder, "a", "a") == [("a", ErrorCode.REQUEST_TIMED_OUT, None)] * 2
