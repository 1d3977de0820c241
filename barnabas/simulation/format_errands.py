"""Errands about how records are stored and how settings are changed: formats, codecs, whose time counts, and refusals.

Topics of the load are compressed anew, which keeps every promise. Formats change in scratch topics (`f<number>`) only:
in a format before 2 a topic knows neither idempotence nor leader epochs, and promises less. Old and new clients write
there and read from there. Settings are altered as clients do (AlterConfigs, IncrementalAlterConfigs), also by two at
once, and as they may not be.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, cast

from barnabas.client.admin import NewTopic
from barnabas.client.errors import ClientError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import alter_configs, incremental_alter_configs
from barnabas.protocol.messages.alter_configs import AlterableConfig as Replaced
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.simulation.errands import Errands
from barnabas.simulation.history import ACKS_ALL, History
from barnabas.simulation.load import LoadCount, ProducerProcess, Stage
from barnabas.simulation.moments import Moment
from barnabas.simulation.old_clients import OldProducer, OldReader
from barnabas.simulation.world import World

_TOPIC, _BROKER, _LOGGER = 2, 4, 8
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
_ALL_BROKERS: Final = ""
_FORMATS: Final = ("0.9.0", "0.10.0", "0.10.2", "0.11.0", "2.7")
_CODECS: Final = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
_TIMES: Final = ("CreateTime", "LogAppendTime")
_TOPIC_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "message.format.version": _FORMATS,
    "compression.type": _CODECS,
    "message.timestamp.type": _TIMES,
    "message.timestamp.difference.max.ms": ("0", "3600000"),
    "cleanup.policy": ("compact", "delete"),
    "max.message.bytes": ("300", "1000012"),
    "segment.bytes": ("500", "3000"),
}
_BROKER_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "message.max.bytes": ("1000012", "900000"),
    "log.cleaner.backoff.ms": ("500", "3000"),
    "log.cleaner.threads": ("1", "2"),
    "num.replica.fetchers": ("1", "2"),
    "log.segment.bytes": ("3000", "100000"),
    "log.message.timestamp.type": _TIMES,
    "compression.type": _CODECS,
    "log.cleanup.policy": ("delete",),
    "max.connections.per.ip.overrides": ("127.0.0.1:100",),
}
_REFUSED: Final[tuple[tuple[int, str, str, int, str | None], ...]] = (
    (_TOPIC, "nobody made this", "segment.bytes", _SET, "500"),
    (_TOPIC, "{topic}", "no.such.key", _SET, "1"),
    (_TOPIC, "{topic}", "segment.bytes", _SET, "-5"),
    (_TOPIC, "{topic}", "message.format.version", _SET, "7.7"),
    (_TOPIC, "{topic}", "segment.bytes", _APPEND, "5"),
    (_TOPIC, "{topic}", "segment.bytes", _SET, None),
    (_TOPIC, "{topic}", "segment.bytes", 9, "500"),
    (_BROKER, "{broker}", "broker.id", _SET, "77"),
    (_BROKER, "{broker}", "log.cleaner.threads", _SET, "none"),
    (_BROKER, "{broker}", "max.connections.per.ip.overrides", _SET, "nonsense"),
    (_BROKER, "{other}", "log.cleaner.threads", _SET, "1"),
    (_BROKER, _ALL_BROKERS, "listeners", _SET, "PLAINTEXT://:1"),
    (_LOGGER, "{broker}", "barnabas", _SET, "LOUD"),
    (_LOGGER, "{broker}", "barnabas", _APPEND, "INFO"),
    (_LOGGER, "{broker}", "no.such.logger", _SET, "INFO"),
    (_LOGGER, "{broker}", "root", _DELETE, None),
    (3, "what is this", "segment.bytes", _SET, "1"),
)
"""Type and name of a resource, the key, what to do with it and the value."""


class FormatErrands(Errands):
    """A client that runs these errands until the load is over."""

    prefix = "f"

    def __init__(self, world: World, name: str, errands: Iterable[Moment]) -> None:
        super().__init__(world, name, errands, least_in_sync=1)
        self.kinds = cast("Mapping[str, Callable[[Errands], Awaitable[None]]]", KINDS)

    def _some_scratch(self) -> TopicPartition | None:
        return TopicPartition(self.chance.choice(self._scratch), 0) if self._scratch else None

    def _unjudged(self, at: TopicPartition) -> Stage:
        """What becomes of these records nobody judges; all of them have keys."""
        history = History(compacted={at: None})
        return replace(self.stage, history=history, count=LoadCount(), on_out_of_range=lambda *_: None)

    # Records.

    async def create_old_topic(self) -> None:
        """Of any format and codec."""
        name = f"{self.prefix}{self._made}"
        self._made += 1
        settings = {key: self.chance.choice(values) for key, values in _TOPIC_SETTINGS.items() if self._maybe(0.6)}
        settings |= {"min.cleanable.dirty.ratio": "0.01", "segment.bytes": "500"} if self._maybe(0.5) else {}
        factor = min(self.chance.randint(1, 3), len(self._world.machines))
        await self._admin.create_topics([NewTopic(name, 1, factor, settings)])
        self._scratch.append(name)

    async def write(self) -> None:
        """Some sets of records, of a client that knows only old formats or of one that knows all."""
        at = self._some_scratch()
        if at is None:
            return
        stage, name = self._unjudged(at), self._world.client_name()
        writer: ProducerProcess = OldProducer(stage, name, [at])
        if self._maybe(0.3):
            writer = ProducerProcess(stage, name, [at], acks=self.chance.choice([1, ACKS_ALL]))
        writer.tombstones = 0.2
        for _ in range(self.chance.randint(2, 12)):
            if not await writer.start(writer.produce(at)):
                return

    async def read(self) -> None:
        """From the start on, as clients do that know only old formats."""
        at = self._some_scratch()
        if at is not None:
            reader = OldReader(self._unjudged(at), self._world.client_name(), [at])
            for _ in range(self.chance.randint(1, 5)):
                await reader.start(reader.poll(at, wait_ms=0))

    # Settings.

    async def change_format(self) -> None:
        """One of a scratch topic's settings that decide how records are stored."""
        at = self._some_scratch()
        if at is not None:
            key = self.chance.choice(list(_TOPIC_SETTINGS))
            await self._set(at.topic, key, self.chance.choice(_TOPIC_SETTINGS[key]))

    async def compress(self) -> None:
        """Let what is written to a topic of the load be stored compressed, or as it was sent."""
        await self._set(self._a_partition().topic, "compression.type", self.chance.choice(_CODECS))

    async def replace_settings(self) -> None:
        """All that is set for a scratch topic or for one broker."""
        at, number = self._some_scratch(), self._a_broker()
        kind, name, known = _BROKER, self.chance.choice([str(number), _ALL_BROKERS]), _BROKER_SETTINGS
        if at is not None and self._maybe(0.6):
            kind, name, known = _TOPIC, at.topic, _TOPIC_SETTINGS
        chosen = [Replaced(key, self.chance.choice(values)) for key, values in known.items() if self._maybe(0.5)]
        request = AlterConfigsRequest([ReplacedResource(kind, name, chosen)], validate_only=self._maybe(0.2))
        await self._ask(alter_configs.API, request, node=number)

    async def change_broker(self) -> None:
        """Some settings of one broker or of all."""
        number = self._a_broker()
        name = self.chance.choice([str(number), _ALL_BROKERS])
        changes = []
        for key, values in _BROKER_SETTINGS.items():
            if self._maybe(0.3):
                operation = self.chance.choice([_SET, _SET, _DELETE])
                changes.append(AlterableConfig(key, operation, self.chance.choice(values)))
        if self._maybe(0.3):
            # Compaction for all would take away what has no key.
            operation, value = self.chance.choice([(_APPEND, "delete"), (_SUBTRACT, "compact")])
            changes.append(AlterableConfig("log.cleanup.policy", operation, value))
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(_BROKER, name, changes)], self._maybe(0.2))
        await self._ask(incremental_alter_configs.API, request, node=number)

    async def contend(self) -> None:
        """Two brokers are asked at once for different settings of one topic."""
        topic = self._a_partition().topic
        changes = [("compression.type", "gzip"), ("index.interval.bytes", "200"), ("flush.ms", "3000")]
        await asyncio.gather(*(self._set(topic, key, value) for key, value in changes), return_exceptions=True)

    async def be_refused(self) -> None:
        """What may not be; whether one or several are asked for, in either request."""
        at, number = self._some_scratch() or self._a_partition(), self._a_broker()
        named = {"topic": at.topic, "broker": str(number), "other": str(number + 1)}
        for kind, name, key, operation, value in self.chance.sample(_REFUSED, 5):
            resource = name.format(**named)
            times = 2 if self._maybe(0.2) else 1
            wanted = [AlterConfigsResource(kind, resource, [AlterableConfig(key, operation, value)])] * times
            replaced = [ReplacedResource(kind, resource, [Replaced(key, value)])] * times
            try:
                if self._maybe(0.5):
                    await self._ask(incremental_alter_configs.API, IncrementalAlterConfigsRequest(wanted), node=number)
                elif not (kind == _TOPIC and operation in (_APPEND, 9)):
                    # Without the operation it would be a good request, and undo what the topic promises.
                    await self._ask(alter_configs.API, AlterConfigsRequest(replaced), node=number)
            except ClientError:
                continue

    async def _set(self, topic: str, key: str, value: str) -> None:
        self._world.tell(f"errand: {key}={value} of {topic}")
        wanted = AlterConfigsResource(_TOPIC, topic, [AlterableConfig(key, _SET, value)])
        request = IncrementalAlterConfigsRequest([wanted])
        await self._ask(incremental_alter_configs.API, request, node=self._a_broker())

    def _maybe(self, share: float) -> bool:
        return self.chance.random() < share


KINDS: Final[Mapping[str, Callable[[FormatErrands], Awaitable[None]]]] = {
    "create topic": FormatErrands.create_old_topic,
    "write": FormatErrands.write,
    "read": FormatErrands.read,
    "change format": FormatErrands.change_format,
    "compress": FormatErrands.compress,
    "replace settings": FormatErrands.replace_settings,
    "change broker": FormatErrands.change_broker,
    "contend": FormatErrands.contend,
    "be refused": FormatErrands.be_refused,
}
