"""The agent: every second what this host and its brokers are busy with, into a topic; what is too much, into another.

It goes on when the cluster does not answer: figures wait for it as long as the producer keeps them, and what is raised
stands on the terminal at once. What an earlier process had raised is read from the topic of events first, so that it is
raised once and cleared once however often the agent starts.
"""

import asyncio
import http.client
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import msgspec
import psutil

from barnabas.client.admin import EARLIEST, LATEST, Admin, NewTopic
from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError
from barnabas.client.outgoing import Delivery
from barnabas.client.producer import Producer
from barnabas.client.producer_options import ProducerOptions
from barnabas.client.range_reader import OffsetRange, RangeReader
from barnabas.pipeline.job_clusters import create_missing, known_topics
from barnabas.pipeline.jobs.job import JobFailed
from barnabas.pipeline.jobs.progress import Progress
from barnabas.pipeline.jobs.report import RunReport
from barnabas.pipeline.operations.broker_figures import BrokerFigures
from barnabas.pipeline.operations.config import OperationsConfig, ThresholdConfig
from barnabas.pipeline.operations.discovery import Discovery, KnownBroker, read_metrics
from barnabas.pipeline.operations.figures import Figure, Sample, encode
from barnabas.pipeline.operations.machine import HostFigures, ProcessFigures
from barnabas.pipeline.operations.thresholds import RAISED, Event, Threshold, Thresholds
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.clock import Clock

_BUFFER_BYTES: Final = 16 * 1024 * 1024
_POLL_S: Final = 0.1


class _Watched:
    """What is kept of a broker between two looks at it."""

    def __init__(self, broker: KnownBroker) -> None:
        self.broker = broker
        self.metrics = BrokerFigures()
        self.process: ProcessFigures | None = None

    def process_figures(self) -> list[Figure]:
        """Of its process here, if that can be seen."""
        pid = self.broker.pid
        if pid is None:
            self.process = None
            return []
        try:
            if self.process is None or self.process.pid != pid:
                self.process = ProcessFigures(pid)
                return []
            return self.process.read()
        except psutil.Error:
            self.process = None
            return []


class Agent:
    """Runs until `is_stopping` says so. Raises JobFailed where it cannot begin."""

    def __init__(
        self,
        config: OperationsConfig,
        cluster: Cluster,
        *,
        host: str,
        report: RunReport,
        progress: Progress,
        is_stopping: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._host = host
        self._report = report
        self._progress = progress
        self._is_stopping = is_stopping
        self._clock = clock
        self._discovery = Discovery(cluster, config)
        self._figures = HostFigures(config.disks)
        self._watched: dict[int, _Watched] = {}
        self._thresholds = Thresholds(map(_threshold, config.thresholds), silence_ms=round(config.silence_s * 1000))
        self._looking: asyncio.Task[None] | None = None
        self._look_at_ms = 0
        self._failure = ""

    async def run(self) -> None:
        """Begin, and go on."""
        try:
            await self._prepare()
        except ClientError as error:
            raise JobFailed(f"cluster {self._config.cluster.bootstrap_servers} cannot be asked: {error}") from error
        options = ProducerOptions(max_buffered_bytes=_BUFFER_BYTES, auto_create_topics=False, linger_ms=50)
        producer = Producer(self._cluster, options=options, on_delivery=self._on_delivery)
        try:
            await self._go_on(producer)
        finally:
            if self._looking is not None:
                self._looking.cancel()
                await asyncio.gather(self._looking, return_exceptions=True)
            try:
                await producer.flush()
            except ClientError as error:
                self._progress.say(f"the last figures were not written: {error}")
            await producer.close()

    async def _prepare(self) -> None:
        config, topics = self._config, self._config.topics
        settings = {"retention.ms": str(topics.retention_ms)}
        await create_missing(
            self._cluster,
            [
                NewTopic(name, topics.partitions, topics.replication_factor, settings)
                for name in (config.topic, config.events_topic)
            ],
        )
        await self._discovery.look()
        self._look_at_ms = self._clock.monotonic_ms() + config.discover_s * 1000
        self._thresholds.restore(await self._events_of_before(), self._clock.wall_ms())

    async def _events_of_before(self) -> list[Event]:
        """The events of this host that were written so far."""
        topic = (await known_topics(self._cluster, [self._config.events_topic]))[self._config.events_topic]
        partitions = [TopicPartition(topic.name, number) for number in topic.partitions]
        admin = Admin(self._cluster)
        starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
        ranges = {at: OffsetRange(starts[at].offset, ends[at].offset) for at in partitions}
        events: list[Event] = []
        async with aclosing(RangeReader(self._cluster, ranges).fetched()) as batches:
            async for batch in batches:
                for record in batch.records:
                    try:
                        event = msgspec.json.decode(record.value or b"", type=Event)
                    except msgspec.MsgspecError:
                        continue  # somebody else's
                    if event.host == self._host:
                        events.append(event)
        return events

    # Second by second.

    async def _go_on(self, producer: "Producer[bytes, bytes]") -> None:
        interval_ms = self._config.interval_ms
        next_ms = self._clock.monotonic_ms()
        while not self._is_stopping():
            now_ms = self._clock.monotonic_ms()
            if now_ms < next_ms:
                await asyncio.sleep(min((next_ms - now_ms) / 1000, _POLL_S))
                continue
            missed = (now_ms - next_ms) // interval_ms
            if missed:
                self._report.add("ticks_missed", missed)
            next_ms += (missed + 1) * interval_ms
            await self._tick(producer, now_ms)

    async def _tick(self, producer: "Producer[bytes, bytes]", now_ms: int) -> None:
        time_ms = self._clock.wall_ms()
        self._maybe_look(now_ms)
        samples = await self._samples(time_ms, now_ms)
        for sample in samples:
            await self._send(producer, self._config.topic, sample.key, encode(sample), time_ms)
            self._report.add("samples", 1)
        for event in self._thresholds.judge(samples, time_ms):
            self._progress.say(str(event))
            self._report.add("events_raised" if event.event == RAISED else "events_cleared", 1)
            await self._send(producer, self._config.events_topic, event.key, msgspec.json.encode(event), time_ms)
        self._show(samples)

    def _maybe_look(self, now_ms: int) -> None:
        """Look for brokers now and then, beside the work."""
        if self._looking is not None and self._looking.done():
            error = self._looking.exception()
            self._looking = None
            if error is not None and not isinstance(error, ClientError):
                raise error
        if self._looking is None and now_ms >= self._look_at_ms:
            self._look_at_ms = now_ms + self._config.discover_s * 1000
            self._looking = asyncio.get_running_loop().create_task(self._discovery.look())

    async def _samples(self, time_ms: int, now_ms: int) -> list[Sample]:
        brokers = list(self._discovery.brokers.values())
        self._figures.disks.update(path for broker in brokers for path in broker.log_dirs)
        samples = [Sample(time_ms, self._host, None, self._figures.read(now_ms))]
        found = await asyncio.gather(*(self._broker_figures(broker) for broker in brokers))
        samples += [
            Sample(time_ms, self._host, broker.id, figures) for broker, figures in zip(brokers, found, strict=True)
        ]
        return samples

    async def _broker_figures(self, broker: KnownBroker) -> list[Figure]:
        watched = self._watched.get(broker.id)
        if watched is None:
            watched = self._watched[broker.id] = _Watched(broker)
        figures = watched.process_figures()
        is_up = watched.process is not None and watched.process.is_alive
        if broker.metrics is not None:
            try:
                text = await read_metrics(broker.metrics)
                figures += watched.metrics.read(text, self._clock.monotonic_ms())
                is_up = True
            except (OSError, ValueError, http.client.HTTPException):
                watched.metrics.forget()
                is_up = False
        return [Figure("broker.up", float(is_up)), *figures]

    async def _send(
        self, producer: "Producer[bytes, bytes]", topic: str, key: bytes, value: bytes, time_ms: int
    ) -> None:
        try:
            await asyncio.wait_for(producer.send(topic, key, value, timestamp=time_ms), self._config.interval_ms / 1000)
        except (ClientError, TimeoutError) as error:
            # The cluster is away: who looks at the terminal sees what is raised.
            self._on_lost(1, str(error) or "no room for more figures")

    def _on_delivery(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            self._on_lost(delivery.count, str(delivery.error))
        else:
            self._failure = ""

    def _on_lost(self, count: int, why: str) -> None:
        self._report.add("records_not_written", count)
        if not self._failure:
            self._progress.say(f"figures are not written: {why}")
        self._failure = why

    def _show(self, samples: list[Sample]) -> None:
        host = {each.metric: each.value for each in samples[0].figures if not each.labels}
        up = sum(each.value for sample in samples[1:] for each in sample.figures if each.metric == "broker.up")
        raised = self._thresholds.raised()
        told = f"; raised: {', '.join(name for name, _ in raised)}" if raised else ""
        self._progress.show(
            f"{self._host}: CPU {host['cpu.used_fraction']:.0%}, memory {host['memory.used_fraction']:.0%}, "
            f"{up:g} of {len(samples) - 1} brokers up{told}"
        )


def _threshold(config: ThresholdConfig) -> Threshold:
    is_upper = config.above is not None
    limit = config.above if config.above is not None else config.below
    assert limit is not None
    return Threshold(
        name=config.name,
        metric=config.metric,
        is_upper=is_upper,
        limit=limit,
        clear=limit if config.clear is None else config.clear,
        for_ms=round(config.for_s * 1000),
        clear_for_ms=round(config.clear_for_s * 1000),
        labels=tuple(sorted(config.labels.items())),
    )
