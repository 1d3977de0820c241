"""ApiVersions tells what the registry holds, and the cluster's features."""

from types import SimpleNamespace

import pytest

from barnabas.protocol.compiler import decode_whole, encode
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.handlers import ALL, api_versions, fetch, produce
from broker.registry import Registry
from broker.request_context import RequestContext
from zk_schema.payloads import VersionRange


def answer(
    version: int, *, name: str = "client", software_version: str = "1.0", registry: Registry | None = None
) -> ApiVersionsResponse:
    """What a client of that version reads."""
    features = SimpleNamespace(epoch=4, features={"ibp": VersionRange(1, 3)})
    services: object = SimpleNamespace(registry=registry or Registry(ALL), features=features)
    context = RequestContext(
        services,  # type: ignore[arg-type]
        version=version,
        correlation_id=1,
        client_id="c",
        client_host="127.0.0.1",
        listener_name="PLAINTEXT",
    )
    response = api_versions.handle(ApiVersionsRequest(name, software_version), context)
    return decode_whole(ApiVersionsResponse, version, encode(response, version))


@pytest.mark.parametrize("version", range(4))
def test_every_version_tells_every_api_with_its_versions(version: int) -> None:
    response = answer(version)
    assert response.error_code == ErrorCode.NONE
    told = [(key.api_key, key.min_version, key.max_version) for key in response.api_keys]
    assert told == sorted((int(handler.key), handler.oldest, handler.newest) for handler in ALL)
    assert response.throttle_time_ms == 0


def test_what_is_not_registered_is_not_told() -> None:
    response = answer(0, registry=Registry([fetch.API, produce.API]))
    assert [key.api_key for key in response.api_keys] == [ApiKey.PRODUCE, ApiKey.FETCH]


def test_the_features_of_the_cluster_are_told_since_version_3() -> None:
    for version in range(4):
        response = answer(version)
        told = [(each.name, each.min_version_level, each.max_version_level) for each in response.finalized_features]
        assert told == ([("ibp", 1, 3)] if version >= 3 else [])
        assert response.finalized_features_epoch == (4 if version >= 3 else -1)
        assert response.supported_features == []


@pytest.mark.parametrize("name", ["", "-client", "client-", "a b", "cl\u00efent", ".", "a\n"])
def test_a_client_of_an_odd_name_or_version_is_refused_since_version_3(name: str) -> None:
    for version in range(4):
        expected = ErrorCode.INVALID_REQUEST if version >= 3 else ErrorCode.NONE
        assert answer(version, name=name).error_code == expected
        assert answer(version, software_version=name).error_code == expected
    assert answer(3, name=name).api_keys == []


@pytest.mark.parametrize("name", ["a", "apache-kafka-java", "librdkafka", "v1.2.3-rc1", "0"])
def test_usual_names_are_taken(name: str) -> None:
    assert answer(3, name=name, software_version=name).error_code == ErrorCode.NONE
