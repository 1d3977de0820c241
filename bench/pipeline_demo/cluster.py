"""The cluster of the demo: one that runs, or one of its own that it starts beside its other files, and stops."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from barnabas.client import Admin, ClientError, NewTopic, Producer, open_cluster
from barnabas.client.cluster import ClusterOptions
from barnabas.launcher.sockets import free_port
from barnabas.pipeline.audit.producer_counts import ProducerCounts
from barnabas.pipeline.source.cluster_view import ClusterView
from barnabas.pipeline.source.options import parse_batch_options
from barnabas.pipeline.source.planning import TopicRange
from barnabas.pipeline.source.range_task import PlannedRange, read_range
from bench.pipeline_demo.changelogs import Entry
from bench.pipeline_demo.commands import CommandFailed, barnabas

_LOCAL = ("127.0.0.1", "localhost")
_PUBLISH_EVERY = 5000
_KEEP_ALL = {"retention.ms": "-1"}
"""Events are of their own time, and those of years ago would be deleted at once."""


@contextmanager
def running_cluster(bootstrap: str, data: Path) -> Iterator[str]:
    """What the cluster was found or started as, in words. Raises CommandFailed."""
    try:
        brokers = asyncio.run(_count_brokers(bootstrap))
    except ClientError as error:
        host, _, port = bootstrap.rpartition(":")
        if host not in _LOCAL or not port.isdecimal():
            raise CommandFailed(f"no cluster answers at {bootstrap}: {error}") from None
        started = ["up", "--detach", "--data", str(data), "--port", port, "--zookeeper-port", str(free_port())]
        barnabas(started, data.parent / "cluster.log")
        try:
            yield f"started for the demo, files in {data}; to have it again: barnabas up --data {data}"
        finally:
            barnabas(["down", "--data", str(data)], data.parent / "cluster.log")
    else:
        yield f"{brokers} brokers, which ran before"


async def _count_brokers(bootstrap: str) -> int:
    options = ClusterOptions(timeout_ms=3000, connect_timeout_ms=3000)
    async with open_cluster(bootstrap, options=options) as cluster:
        return len((await cluster.metadata()).nodes)


async def feed(bootstrap: str, entries: Sequence[Entry], *, events: str, counts: str, results: str) -> None:
    """Make the topics, and write the events, counted. Raises ClientError."""
    async with open_cluster(bootstrap) as cluster:
        replicas = min(3, len((await cluster.metadata()).nodes))
        partitions = {events: 6, counts: 1, results: 3}
        made = await Admin(cluster).create_topics(
            [NewTopic(name, number, replicas, configs=_KEEP_ALL) for name, number in partitions.items()]
        )
        for error in made.values():
            if error is not None:
                raise error
        async with Producer(cluster) as producer:
            counted = ProducerCounts(producer, name="pipeline-demo", topic=counts)
            for number, entry in enumerate(entries, 1):
                await counted.send(events, entry.member.encode(), entry.to_json(), timestamp=entry.time_ms)
                if number % _PUBLISH_EVERY == 0:
                    await counted.publish()
            await counted.close()


def read_json(bootstrap: str, topic: str) -> list[Mapping[str, Any]]:
    """The values of a topic that were committed. Raises ClientError."""
    options = parse_batch_options(
        {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    )

    async def ranges() -> list[TopicRange]:
        async with ClusterView(options) as view:
            spans = await view.spans(await view.partitions(all_must_exist=True))
            return [TopicRange(at, span.start, span.end) for at, span in spans.items() if span.start < span.end]

    return [
        json.loads(value)
        for each in asyncio.run(ranges())
        for batch in read_range(PlannedRange(each), ("value",), options)
        for value in batch.column(0).to_pylist()
    ]
