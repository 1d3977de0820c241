"""DescribeConfigs: which resource, which errors, what each version tells."""

import logging

import pytest

from barnabas.protocol.compiler import decode, encode
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from broker.config_description import ConfigSource
from broker.config_keys import BROKER_KEYS, TOPIC_KEYS
from broker.config_keys.key import ConfigType
from broker.handlers.describe_configs import handle
from tests.unit.broker.small_broker import SmallBroker, make_config
from zk_schema import paths
from zk_schema.ops import Create
from zk_schema.payloads import EntityConfig

TOPIC, BROKER, LOGGER = 2, 4, 8


async def describe(
    broker: SmallBroker,
    *resources: tuple[int, str],
    keys: list[str] | None = None,
    version: int = 3,
    synonyms: bool = False,
    documentation: bool = False,
) -> list[DescribeConfigsResult]:
    wanted = [DescribeConfigsResource(kind, name, keys) for kind, name in resources]
    response = await handle(DescribeConfigsRequest(wanted, synonyms, documentation), broker.context(version))
    decoded, _ = decode(DescribeConfigsResponse, version, memoryview(encode(response, version)))
    return decoded.results


async def one_key(broker: SmallBroker, kind: int, name: str, key: str, **how: bool) -> DescribeConfigsResourceResult:
    (result,) = await describe(broker, (kind, name), keys=[key], **how)
    (config,) = result.configs
    return config


@pytest.fixture
async def holder(broker: SmallBroker) -> SmallBroker:
    """Has the topic t with retention.ms=5."""
    broker.services.config = make_config({"log.segment.bytes": "1000", "ssl.key.password": "hunter2"})
    broker.announce("t")
    await broker.zk.write(Create(paths.topic_config("t"), EntityConfig({"retention.ms": "5"}).encode()))
    return broker


@pytest.mark.parametrize("keys", [None, []])
async def test_no_keys_ask_for_all(holder: SmallBroker, keys: list[str] | None) -> None:
    topic, broker = await describe(holder, (TOPIC, "t"), (BROKER, "1"), keys=keys)
    assert {each.name for each in topic.configs} == set(TOPIC_KEYS)
    assert {each.name for each in broker.configs} == set(BROKER_KEYS)
    assert (topic.error_code, topic.error_message) == (ErrorCode.NONE, "")


async def test_a_topics_key_is_told_with_source_type_and_synonyms(holder: SmallBroker) -> None:
    config = await one_key(holder, TOPIC, "t", "retention.ms", synonyms=True)
    assert (config.value, config.config_source, config.config_type) == ("5", ConfigSource.TOPIC, ConfigType.LONG)
    assert not config.read_only
    assert [each.name for each in config.synonyms] == ["retention.ms"]
    config = await one_key(holder, TOPIC, "t", "segment.bytes", synonyms=True)
    assert (config.value, config.config_source) == ("1000", ConfigSource.STATIC_BROKER)
    assert [(each.name, each.value, each.source) for each in config.synonyms] == [
        ("log.segment.bytes", "1000", ConfigSource.STATIC_BROKER),
        ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    ]


async def test_synonyms_and_documentation_come_only_when_asked_for(holder: SmallBroker) -> None:
    config = await one_key(holder, BROKER, "1", "log.segment.bytes")
    assert config.synonyms == []
    assert config.documentation is None
    config = await one_key(holder, BROKER, "1", "log.segment.bytes", documentation=True)
    assert config.documentation == BROKER_KEYS["log.segment.bytes"].documentation


async def test_a_secret_is_not_told(holder: SmallBroker) -> None:
    config = await one_key(holder, BROKER, "1", "ssl.key.password", synonyms=True)
    assert config.is_sensitive
    assert config.value is None
    assert [each.value for each in config.synonyms] == [None]


async def test_version_0_marks_no_default_as_one(holder: SmallBroker) -> None:
    (result,) = await describe(holder, (BROKER, "1"), version=0)
    assert not any(each.is_default for each in result.configs)


async def test_an_empty_name_means_the_clusters_defaults_of_which_there_are_none(holder: SmallBroker) -> None:
    (result,) = await describe(holder, (BROKER, ""))
    assert (result.error_code, result.configs) == (ErrorCode.NONE, [])


@pytest.mark.parametrize("name", ["2", "one", "1 ", "", "99999999999"])
async def test_only_this_broker_and_its_loggers_are_told(holder: SmallBroker, name: str) -> None:
    kinds = [(LOGGER, name)] if not name else [(BROKER, name), (LOGGER, name)]
    for result in await describe(holder, *kinds):
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert result.error_message
        assert result.configs == []


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("never", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_a_topic_that_there_is_not(holder: SmallBroker, name: str, error: ErrorCode) -> None:
    (result,) = await describe(holder, (TOPIC, name))
    assert (result.error_code, result.resource_name, result.configs) == (error, name, [])


async def test_one_unknown_type_of_resource_fails_the_whole_request(holder: SmallBroker) -> None:
    results = await describe(holder, (TOPIC, "t"), (3, "x"))
    assert [each.error_code for each in results] == [ErrorCode.INVALID_REQUEST] * 2
    assert [each.configs for each in results] == [[], []]


async def test_loggers_are_told_with_kafkas_names_of_levels(holder: SmallBroker) -> None:
    logging.getLogger("broker.quiet").setLevel(logging.WARNING)
    (result,) = await describe(holder, (LOGGER, "1"), keys=["broker.quiet", "root"])
    told = {each.name: each for each in result.configs}
    assert told["broker.quiet"].value == "WARN"
    assert told["broker.quiet"].config_source == 6
    assert set(told) == {"broker.quiet", "root"}


async def test_a_configuration_that_cannot_be_read_is_a_server_error(holder: SmallBroker) -> None:
    holder.announce("broken")
    await holder.zk.write(Create(paths.topic_config("broken"), b"{"))
    (result,) = await describe(holder, (TOPIC, "broken"))
    assert result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
