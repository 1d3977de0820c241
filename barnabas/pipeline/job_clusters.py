"""The clusters of a job, as its configuration says how to talk to them."""

from collections.abc import Iterable

from barnabas.client.admin import Admin, ConfigResource, NewTopic, ResourceType
from barnabas.client.cluster import Cluster
from barnabas.client.errors import KafkaError
from barnabas.client.metadata import TopicMetadata
from barnabas.pipeline.given_options import OptionError
from barnabas.pipeline.jobs.config import ClusterConfig
from barnabas.pipeline.jobs.job import JobFailed
from barnabas.pipeline.source.cluster_view import connect
from barnabas.pipeline.source.options import Fetching, parse_batch_options
from barnabas.protocol.error_code import ErrorCode


def fetching_of(config: ClusterConfig) -> Fetching:
    """How a cluster is asked. Raises JobFailed for options that do not act."""
    try:
        return parse_batch_options({**config.client_options(), "subscribe": "any"}).fetching
    except OptionError as error:
        raise JobFailed(f"cluster {config.bootstrap_servers}: {error}") from None


def open_configured(config: ClusterConfig) -> Cluster:
    """A cluster; nothing is connected yet. Raises JobFailed."""
    try:
        return connect(config.bootstrap_servers, fetching_of(config))
    except OptionError as error:
        raise JobFailed(f"cluster {config.bootstrap_servers}: {error}") from None


async def id_of(cluster: Cluster, name: str) -> str:
    """What a cluster is known by. Raises JobFailed where it tells nothing, and ClientError."""
    found = (await cluster.metadata()).cluster_id
    if not found:
        raise JobFailed(f"{name}: its brokers do not tell the id of their cluster; Kafka does since 0.10.1")
    return found


async def create_missing(cluster: Cluster, topics: Iterable[NewTopic]) -> list[str]:
    """Create topics that are not there, wait until they are, and return their names.

    Raises JobFailed where one cannot be created, and ClientError.
    """
    wanted = {topic.name: topic for topic in topics}
    known = (await cluster.metadata(list(wanted))).topics if wanted else {}
    missing = [each for name, each in wanted.items() if known[name].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    if not missing:
        return []
    made = []
    for name, error in (await Admin(cluster).create_topics(missing)).items():
        if error is None:
            made.append(name)
        elif error.error is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise JobFailed(f"there is no topic {name}, and it cannot be created: {error}")
    await known_topics(cluster, wanted)
    return made


async def known_topics(
    cluster: Cluster, names: Iterable[str], *, least_partitions: int = 1
) -> dict[str, TopicMetadata]:
    """Topics that are there, once brokers know them with so many partitions. Raises ClientError."""
    wanted = list(names)

    async def ask() -> dict[str, TopicMetadata]:
        found = (await cluster.metadata(wanted)).topics if wanted else {}
        for name in wanted:
            if found[name].error:
                raise KafkaError(found[name].error, context=f"topic {name}")
            if len(found[name].partitions) < least_partitions:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, context=f"topic {name}")
        return {name: found[name] for name in wanted}

    return await cluster.patiently(ask)


async def config_value(cluster: Cluster, topic: str, key: str) -> str | None:
    """What a key of a topic is set to, defaults included. Raises ClientError."""
    entries = await Admin(cluster).describe_configs(ConfigResource(ResourceType.TOPIC, topic), [key])
    return next((entry.value for entry in entries if entry.name == key), None)
