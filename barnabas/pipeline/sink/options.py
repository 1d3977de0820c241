"""The options of the sink: names and rules of Spark's own Kafka sink, as values. Pure.

How options are taken, and that none is left over, stands in given_options.py.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.pipeline.given_options import (
    MIB,
    GivenOptions,
    natural,
    natural_int32,
    plaintext,
    positive_int32,
)
from barnabas.protocol.batch import Codec


@dataclass(frozen=True)
class Sending:
    """How records are sent. `buffer_bytes` is what a task may have under way; it gathers rows for a quarter of that."""

    client_id: str = "barnabas-spark"
    codec: Codec = Codec.NONE
    batch_bytes: int = 256 * 1024
    linger_ms: int = 500
    buffer_bytes: int = 32 * MIB
    max_request_bytes: int = MIB
    max_in_flight: int = 5
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    timeout_ms: int = 60_000
    """For one call with all its attempts: metadata, the begin and the end of transactions."""


@dataclass(frozen=True)
class BatchNumber:
    """What an application calls a batch that it may write again (Delta's txnAppId and txnVersion)."""

    application: str
    number: int


@dataclass(frozen=True)
class SinkOptions:
    """All that a query says. Without a prefix of transactional ids records are written at least once."""

    bootstrap_servers: str
    topic: str | None = None
    transactional_id_prefix: str | None = None
    transaction_timeout_ms: int = 900_000
    """As long as a broker allows unless it is configured (transaction.max.timeout.ms)."""
    batch_number: BatchNumber | None = None
    sending: Sending = Sending()


def parse_batch_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of a batch write. Raises OptionError."""
    options = GivenOptions(given)
    application = options.maybe("txnAppId", _application)
    number = options.maybe("txnVersion", natural)
    if (application is None) != (number is None):
        options.fail("txnAppId" if number is None else "txnVersion", "txnAppId and txnVersion go together")
    if application is not None and options.text("transactionalIdPrefix") is None:
        options.fail("txnAppId", "it acts on transactions; give a transactionalIdPrefix as well")
    numbered = None if application is None or number is None else BatchNumber(application, number)
    return _parse(options, numbered)


def parse_stream_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of a streaming write. Raises OptionError."""
    options = GivenOptions(given)
    options.refuse(_BATCH_ONLY, "a stream is known by its own query id and batch id; take it away")
    for name in _ACTED_ON_BY_SPARK:
        options.text(name)
    return _parse(options, None)


def _parse(options: GivenOptions, batch_number: BatchNumber | None) -> SinkOptions:
    options.refuse(_REFUSED, "")
    prefix = options.maybe("transactionalIdPrefix", _name)
    if prefix is None and options.text(_TIMEOUT) is not None:
        options.fail(_TIMEOUT, "it acts on transactions; give a transactionalIdPrefix as well")
    options.read("kafka.acks", _all, None)
    options.read("kafka.enable.idempotence", _true, None)
    options.read("kafka.security.protocol", plaintext, None)
    parsed = SinkOptions(
        bootstrap_servers=options.bootstrap_servers(),
        topic=options.maybe("topic", _topic),
        transactional_id_prefix=prefix,
        transaction_timeout_ms=options.read(_TIMEOUT, positive_int32, SinkOptions.transaction_timeout_ms),
        batch_number=batch_number,
        sending=_sending(options),
    )
    options.refuse_the_rest(of="the sink barnabas", names=_NAMES, client_names=_CLIENT_NAMES)
    return parsed


def _sending(options: GivenOptions) -> Sending:
    numbers = {
        field: options.maybe(name, natural_int32 if name == "kafka.linger.ms" else positive_int32)
        for name, field in _NUMBERS.items()
    }
    sending = Sending(
        client_id=options.text("kafka.client.id") or Sending.client_id,
        codec=options.read("kafka.compression.type", _codec, Sending.codec),
        max_in_flight=options.read("kafka.max.in.flight.requests.per.connection", _in_flight, Sending.max_in_flight),
        **{field: number for field, number in numbers.items() if number is not None},
    )
    if sending.buffer_bytes < 4 * sending.batch_bytes:
        options.fail("kafka.buffer.memory", f"it is less than four batches of kafka.batch.size={sending.batch_bytes}")
    if sending.buffer_bytes > _MOST_BUFFER_BYTES:
        options.fail("kafka.buffer.memory", f"it is more than {_MOST_BUFFER_BYTES}")
    return sending


def _name(text: str) -> str:
    if not text:
        raise ValueError("it must not be empty")
    return text


def _application(text: str) -> str:
    if "/" in text:
        raise ValueError("it must have no slash")
    return _name(text)


def _topic(text: str) -> str:
    if not is_topic(text):
        raise ValueError("it is no name of a topic: letters, digits, '.', '_' and '-', at most 249")
    return text


def is_topic(name: str) -> bool:
    """Whether a topic may be called so."""
    return bool(re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name)) and name not in {".", ".."}


def _all(text: str) -> None:
    if text.lower() not in {"all", "-1"}:
        raise ValueError("it must be all: this sink is always idempotent")


def _true(text: str) -> None:
    if text.lower() != "true":
        raise ValueError("it must be true: this sink is always idempotent")


def _codec(text: str) -> Codec:
    codecs = {codec.name.lower(): codec for codec in Codec}
    if text.lower() not in codecs:
        raise ValueError(f"it must be one of {', '.join(codecs)}")
    return codecs[text.lower()]


def _in_flight(text: str) -> int:
    number = natural(text)
    if not 1 <= number <= Sending.max_in_flight:
        raise ValueError(f"it must be 1 to {Sending.max_in_flight}: brokers know so many batches of a producer again")
    return number


_MOST_BUFFER_BYTES: Final = 1024 * MIB
_TIMEOUT: Final = "kafka.transaction.timeout.ms"
_NUMBERS: Final = {
    "kafka.batch.size": "batch_bytes",
    "kafka.linger.ms": "linger_ms",
    "kafka.buffer.memory": "buffer_bytes",
    "kafka.max.request.size": "max_request_bytes",
    "kafka.delivery.timeout.ms": "delivery_timeout_ms",
    "kafka.request.timeout.ms": "request_timeout_ms",
    "kafka.socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "kafka.max.block.ms": "timeout_ms",
}
_ACTED_ON_BY_SPARK: Final = ("checkpointLocation", "queryName")
"""What Spark hands on of a streaming query."""
_BATCH_ONLY: Final = ("txnAppId", "txnVersion")
_NO_SERIALIZER: Final = "keys and values are binary or string columns; convert them in the query"
_REFUSED: Final = {
    "path": "topics are named by the option topic or a column topic; call save() or start() without a path",
    "includeHeaders": "a column headers is always written; take it away",
    "kafka.transactional.id": "every task has one of its own; say transactionalIdPrefix",
    "kafka.retries": "records are tried until kafka.delivery.timeout.ms is over; say that",
    "kafka.retry.backoff.ms": "pauses grow by themselves; take it away",
    "kafka.key.serializer": _NO_SERIALIZER,
    "kafka.value.serializer": _NO_SERIALIZER,
    "kafka.interceptor.classes": "there are no interceptors",
    "kafka.partitioner.class": "a key chooses as in Kafka (murmur2); give a column partition to choose otherwise",
    "kafka.default.api.timeout.ms": "that is of consumers; say kafka.max.block.ms",
}
_CLIENT_NAMES: Final = (
    "kafka.acks",
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.compression.type",
    "kafka.enable.idempotence",
    "kafka.max.in.flight.requests.per.connection",
    "kafka.security.protocol",
    _TIMEOUT,
    *_NUMBERS,
)
_NAMES: Final = ("topic", "transactionalIdPrefix", *_BATCH_ONLY, "kafka.*")
