"""AlterConfigs and IncrementalAlterConfigs: what is written, what is refused, and what races do."""

import asyncio
import logging
from collections.abc import Mapping

import pytest

from barnabas.protocol.compiler import decode, encode
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages import alter_configs as replacing
from barnabas.protocol.messages import incremental_alter_configs as changing
from broker.config_operations import Operation
from broker.handlers import alter_configs, incremental_alter_configs
from tests.unit.broker.small_broker import CutOnWrite, SmallBroker
from zk_schema import paths
from zk_schema.ops import Create, Set

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = Operation
THROTTLED = "leader.replication.throttled.replicas"

Settings = Mapping[str, str | None]
Changes = list[tuple[str, int, str | None]]


async def replace(
    broker: SmallBroker, *resources: tuple[int, str, Settings], validate_only: bool = False, version: int = 1
) -> list[int]:
    wanted = [
        replacing.AlterConfigsResource(kind, name, [replacing.AlterableConfig(*each) for each in settings.items()])
        for kind, name, settings in resources
    ]
    request = replacing.AlterConfigsRequest(wanted, validate_only)
    response = await alter_configs.handle(request, broker.context(version))
    decoded, _ = decode(replacing.AlterConfigsResponse, version, memoryview(encode(response, version)))
    assert all((each.error_message is None) == (each.error_code == 0) for each in decoded.responses)
    return [each.error_code for each in decoded.responses]


async def change(
    broker: SmallBroker, *resources: tuple[int, str, Changes], validate_only: bool = False, version: int = 1
) -> list[int]:
    wanted = [
        changing.AlterConfigsResource(kind, name, [changing.AlterableConfig(*each) for each in changes])
        for kind, name, changes in resources
    ]
    request = changing.IncrementalAlterConfigsRequest(wanted, validate_only)
    response = await incremental_alter_configs.handle(request, broker.context(version))
    decoded, _ = decode(changing.IncrementalAlterConfigsResponse, version, memoryview(encode(response, version)))
    return [each.error_code for each in decoded.responses]


@pytest.fixture
async def holder(broker: SmallBroker) -> SmallBroker:
    """Has the topics t and u."""
    broker.update()
    for name in ("t", "u"):
        broker.announce(name)
        await broker.write_topic(name, {0: (1,)})
    return broker


def written(broker: SmallBroker, path: str) -> bytes | None:
    znode = broker.server.tree.get(path)
    return None if znode is None else znode.data


def of_topic(broker: SmallBroker, name: str = "t") -> bytes | None:
    return written(broker, paths.topic_config(name))


async def notifications(broker: SmallBroker) -> list[bytes]:
    names = await broker.zk.children(paths.CONFIG_CHANGES) or []
    return [written(broker, f"{paths.CONFIG_CHANGES}/{name}") or b"" for name in names]


async def test_what_is_written_is_what_kafka_writes(holder: SmallBroker) -> None:
    assert await replace(holder, (TOPIC, "t", {"retention.ms": "5"})) == [0]
    assert await change(holder, (BROKER, "1", [("log.segment.bytes", SET, "1000")])) == [0]
    assert await change(holder, (BROKER, "", [("message.max.bytes", SET, "9")])) == [0]
    assert of_topic(holder) == b'{"version":1,"config":{"retention.ms":"5"}}'
    assert written(holder, "/config/brokers/1") == b'{"version":1,"config":{"log.segment.bytes":"1000"}}'
    assert written(holder, "/config/brokers/<default>") == b'{"version":1,"config":{"message.max.bytes":"9"}}'
    assert await notifications(holder) == [
        b'{"version":2,"entity_path":"topics/t"}',
        b'{"version":2,"entity_path":"brokers/1"}',
        b'{"version":2,"entity_path":"brokers/<default>"}',
    ]


@pytest.mark.parametrize("version", [0, 1])
async def test_altering_replaces_all_and_incrementally_only_what_is_named(holder: SmallBroker, version: int) -> None:
    await replace(holder, (TOPIC, "t", {"retention.ms": "5", "segment.bytes": "1000"}), version=version)
    await change(holder, (TOPIC, "t", [("retention.ms", SET, "6"), ("flush.ms", SET, "7")]), version=version)
    assert of_topic(holder) == b'{"version":1,"config":{"retention.ms":"6","segment.bytes":"1000","flush.ms":"7"}}'
    await change(holder, (TOPIC, "t", [("retention.ms", DELETE, None)]), version=version)
    await replace(holder, (TOPIC, "t", {"retention.bytes": "8"}), version=version)
    assert of_topic(holder) == b'{"version":1,"config":{"retention.bytes":"8"}}'
    await replace(holder, (TOPIC, "t", {}), version=version)
    assert of_topic(holder) == b'{"version":1,"config":{}}'


async def test_what_is_only_tried_is_checked_and_not_written(holder: SmallBroker) -> None:
    assert await replace(holder, (TOPIC, "t", {"retention.ms": "5"}), validate_only=True) == [0]
    assert await change(holder, (BROKER, "1", [("log.segment.bytes", SET, "13")]), validate_only=True) == [42]
    assert await change(holder, (BROKER, "1", [("log.segment.bytes", SET, "1000")]), validate_only=True) == [0]
    assert of_topic(holder) is written(holder, "/config/brokers/1") is None
    assert await notifications(holder) == []


@pytest.mark.parametrize(
    ("resource", "setting", "error"),
    [
        ((TOPIC, "never"), ("retention.ms", "5"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "a/b"), ("retention.ms", "5"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, ""), ("retention.ms", "5"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "t"), ("no.such.key", "5"), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "t"), ("preallocate", "true"), ErrorCode.INVALID_CONFIG),
        ((TOPIC, "t"), ("retention.ms", "many"), ErrorCode.INVALID_REQUEST),
        ((TOPIC, "t"), ("retention.ms", None), ErrorCode.INVALID_REQUEST),
        ((BROKER, "2"), ("log.segment.bytes", "1000"), ErrorCode.INVALID_REQUEST),
        ((BROKER, "one"), ("log.segment.bytes", "1000"), ErrorCode.INVALID_REQUEST),
        ((BROKER, "9" * 5000), ("log.segment.bytes", "1000"), ErrorCode.INVALID_REQUEST),
        ((BROKER, "1"), ("broker.id", "2"), ErrorCode.INVALID_REQUEST),
        ((BROKER, ""), ("num.io.threads", "9"), ErrorCode.INVALID_REQUEST),
        ((BROKER, ""), ("log.preallocate", "true"), ErrorCode.INVALID_REQUEST),
        ((BROKER, ""), ("no.such.key", "9"), ErrorCode.INVALID_REQUEST),
        ((BROKER, "1"), ("max.connections.per.ip.overrides", "no.such.host.invalid:1"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_may_not_be_is_refused_by_both(
    holder: SmallBroker, resource: tuple[int, str], setting: tuple[str, str | None], error: ErrorCode
) -> None:
    key, value = setting
    assert await replace(holder, (*resource, {key: value})) == [error]
    assert await change(holder, (*resource, [(key, SET, value)])) == [error]
    assert await notifications(holder) == []


async def test_each_resource_stands_by_itself(holder: SmallBroker) -> None:
    good, bad = {"retention.ms": "5"}, {"retention.ms": "x"}
    assert await replace(holder, (TOPIC, "t", good), (TOPIC, "u", bad), (TOPIC, "v", good)) == [0, 42, 3]
    assert (of_topic(holder, "t"), of_topic(holder, "u")) != (None, None)
    assert of_topic(holder, "u") is None


@pytest.mark.parametrize("kind", [0, 3, LOGGER, 16, -1])
async def test_a_resource_of_another_type_fails_the_whole_request(holder: SmallBroker, kind: int) -> None:
    assert await replace(holder, (TOPIC, "t", {"retention.ms": "5"}), (kind, "x", {})) == [42, 42]
    if kind != LOGGER:
        assert await change(holder, (TOPIC, "t", [("retention.ms", SET, "5")]), (kind, "x", [])) == [42, 42]
    assert of_topic(holder) is None


async def test_a_resource_that_is_named_twice(holder: SmallBroker) -> None:
    assert await replace(holder, (TOPIC, "t", {"flush.ms": "5"}), (TOPIC, "t", {"flush.ms": "6"})) == [42]
    assert of_topic(holder) is None
    one, other = [("flush.ms", SET, "5")], [("retention.ms", SET, "6")]
    assert await change(holder, (TOPIC, "t", list(one)), (TOPIC, "t", list(other))) == [0]
    assert of_topic(holder) == b'{"version":1,"config":{"retention.ms":"6"}}'


async def test_lags_that_contradict_each_other_are_refused_also_when_one_was_set_before(holder: SmallBroker) -> None:
    first, second = "min.compaction.lag.ms", "max.compaction.lag.ms"
    assert await change(holder, (TOPIC, "t", [(first, SET, "9")])) == [0]
    assert await change(holder, (TOPIC, "t", [(second, SET, "8")])) == [ErrorCode.INVALID_CONFIG]


# What stands there already.


async def test_what_others_wrote_stays_where_it_is_not_named(holder: SmallBroker) -> None:
    data = b'{"version":1,"config":{"no.such.key":"1","num.io.threads":"9"}}'
    for path in (paths.topic_config("t"), paths.broker_config(1)):
        await holder.zk.write(Create(path, data))
    assert await change(holder, (TOPIC, "t", [("flush.ms", SET, "5")])) == [0]
    assert await change(holder, (BROKER, "1", [("log.segment.bytes", SET, "1000")])) == [0]
    assert b'"no.such.key":"1"' in (of_topic(holder) or b"")
    assert b'"num.io.threads":"9"' in (written(holder, "/config/brokers/1") or b"")


async def test_what_cannot_be_read_is_replaced_and_not_changed(holder: SmallBroker) -> None:
    await holder.zk.write(Create(paths.topic_config("t"), b"{"))
    assert await change(holder, (TOPIC, "t", [("flush.ms", SET, "5")])) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert await replace(holder, (TOPIC, "t", {"flush.ms": "5"})) == [0]
    assert of_topic(holder) == b'{"version":1,"config":{"flush.ms":"5"}}'


async def test_a_topic_that_is_gone_from_zookeeper_gets_no_settings(holder: SmallBroker) -> None:
    await holder.remove_topic("t")
    assert await replace(holder, (TOPIC, "t", {"flush.ms": "5"})) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert of_topic(holder) is None


async def test_more_than_a_znode_holds_is_refused(holder: SmallBroker) -> None:
    replicas = ",".join(f"{number}:1" for number in range(150_000))
    assert await replace(holder, (TOPIC, "t", {THROTTLED: replicas})) == [ErrorCode.INVALID_REQUEST]


# Races.


async def test_of_two_changes_at_once_neither_undoes_the_other(holder: SmallBroker) -> None:
    keys = ["flush.ms", "retention.ms", "segment.bytes", "flush.messages", "segment.ms"]
    answers = await asyncio.gather(*(change(holder, (TOPIC, "t", [(key, SET, "1000")])) for key in keys))
    assert answers == [[0]] * len(keys)
    assert all(f'"{key}":"1000"'.encode() in (of_topic(holder) or b"") for key in keys)
    assert len(await notifications(holder)) == len(keys)


@pytest.mark.parametrize("applied", [True, False])
async def test_a_change_whose_answer_is_lost_is_made_once(holder: SmallBroker, *, applied: bool) -> None:
    await change(holder, (TOPIC, "t", [(THROTTLED, SET, "0:1")]))
    holder.services.zk = CutOnWrite(holder, applied=applied)
    assert await change(holder, (TOPIC, "t", [(THROTTLED, APPEND, "1:1")])) == [0]
    assert of_topic(holder) == f'{{"version":1,"config":{{"{THROTTLED}":"0:1,1:1"}}}}'.encode()
    assert len(await notifications(holder)) == 2


async def test_what_cannot_be_told_after_a_lost_answer_is_said_so(holder: SmallBroker) -> None:
    await change(holder, (TOPIC, "t", [(THROTTLED, SET, "0:1")]))
    cut = CutOnWrite(holder, applied=True)
    holder.services.zk = cut
    reads = 0

    async def get(path: str) -> object:
        nonlocal reads
        reads += 1
        if cut.cut:
            await holder.zk.write(Set(path, b'{"version":1,"config":{}}'))
        return await holder.zk.get(path)

    cut.get = get  # type: ignore[assignment]
    assert await change(holder, (TOPIC, "t", [(THROTTLED, APPEND, "1:1")])) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert reads == 2


# Loggers.


async def test_levels_of_loggers_act_at_once_and_can_be_taken_back(holder: SmallBroker) -> None:
    logger = logging.getLogger("broker.loud")
    assert await change(holder, (LOGGER, "1", [("broker.loud", SET, "TRACE")])) == [0]
    assert logger.isEnabledFor(logging.DEBUG - 5)
    assert await change(holder, (LOGGER, "", [("broker.loud", SET, "FATAL")])) == [0]
    assert not logger.isEnabledFor(logging.ERROR)
    assert await change(holder, (LOGGER, "1", [("broker.loud", DELETE, None)])) == [0]
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("2", [("broker.loud", SET, "INFO")]),
        ("1", [("broker.loud", SET, "LOUD")]),
        ("1", [("broker.loud", SET, "info")]),
        ("1", [("broker.loud", SET, None)]),
        ("1", [("broker.loud", APPEND, "INFO")]),
        ("1", [("no.such.logger", SET, "INFO")]),
        ("1", [("root", DELETE, None)]),
        ("1", [("broker.loud", SET, "INFO"), ("broker.loud", DELETE, None)]),
        ("1", [("broker.loud", SET, "DEBUG"), ("root", DELETE, None)]),
    ],
)
async def test_levels_that_cannot_be_are_refused_and_nothing_changes(
    holder: SmallBroker, name: str, changes: Changes
) -> None:
    logger = logging.getLogger("broker.loud")
    assert await change(holder, (LOGGER, name, changes)) == [ErrorCode.INVALID_REQUEST]
    assert logger.level == logging.NOTSET
    good = [("broker.loud", SET, "DEBUG")]
    assert await change(holder, (LOGGER, "1", list(good)), validate_only=True) == [0]
    assert logger.level == logging.NOTSET
