"""Bytes that a broker must survive, drawn from a seed: each kind of hostile frame by its name.

Requests come from the classes of `barnabas.protocol.messages`, in every API and version that the broker serves, with
values that no client would send; then they are cut, bent or left as they are. Names of topics are such that nothing
can be made by them: what a request may do that is in order is not what these tests are about.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from barnabas.protocol.batch import Codec, frame, read_header
from barnabas.protocol.compiler import encode
from barnabas.protocol.frames import encode_request_header
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.primitives import Blob, Fixed, RecordSet, Text
from barnabas.protocol.records import Record, build_batch
from barnabas.protocol.schema import ArrayOf, Field, Kind, StructOf, default_of, describe
from broker.handlers import ALL
from broker.registry import Handler
from tests.support.bombs import bombs

_SIZE: Final = struct.Struct(">i")
_WEIRD_TEXT: Final = ("", "no/topic", "\x00", "a b", "x" * 300, "ünï", "..")
_WEIRD_NUMBERS: Final = (-(2**63), -(2**31), -1000, -2, -1, 0, 1, 2, 5, 100, 2**15 - 1, 2**31 - 1, 2**63 - 1)
_BITS: Final = {"b": 8, "h": 16, "i": 32, "q": 64}
_READS: Final = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_FOR_LEADER_EPOCH)


@dataclass(slots=True)
class HostileFrame:
    """What goes onto the wire, its size included. After some the connection cannot be used on."""

    kind: str
    data: bytes
    breaks_stream: bool = False


class FrameMaker:
    """Draws hostile frames. `topic` is one that exists, with one partition."""

    def __init__(self, random: Random, topic: str) -> None:
        self._random = random
        self._topic = topic
        self._correlation_id = 0
        self._bombs = bombs()
        self._kinds: Mapping[str, Callable[[], bytes]] = {
            "random bytes in a frame": lambda: _framed(random.randbytes(random.randrange(1, 200))),
            "weird values": lambda: _framed(self._weird_request()),
            "truncated": self._truncated,
            "a number overwritten": self._number_overwritten,
            "bits flipped": self._bits_flipped,
            "trailing bytes": lambda: _framed(self._weird_request() + random.randbytes(random.randrange(1, 40))),
            "unknown API": lambda: _framed(self._header(random.choice((-1, 58, 999, 2**15 - 1)), 0)),
            "unsupported version": self._unsupported_version,
            "bad checksum": lambda: self._produce(_bent(self._batch(), at=17, to=random.randbytes(4))),
            "wrong magic": lambda: self._produce(_bent(self._batch(), at=16, to=bytes([random.choice((3, 127, 255))]))),
            "wrong batch size": lambda: self._produce(_bent(self._batch(), at=8, to=self._weird_int32())),
            "wrong record count": lambda: self._produce(self._miscounted()),
            "random bytes as records": lambda: self._produce(random.randbytes(random.randrange(1, 300))),
            "decompression bomb": lambda: self._produce(random.choice(self._bombs)),
        }
        self._stream_breakers: Mapping[str, Callable[[], bytes]] = {
            "2 GB announced": lambda: _SIZE.pack(2**31 - 1) + random.randbytes(20),
            "a negative size": lambda: _SIZE.pack(random.choice((-1, -(2**31)))) + random.randbytes(20),
            "random bytes": lambda: random.randbytes(random.randrange(5, 200)),
        }

    @property
    def kinds(self) -> list[str]:
        return [*self._kinds, *self._stream_breakers]

    def make(self, kind: str) -> HostileFrame:
        """A frame of that kind."""
        if kind in self._kinds:
            return HostileFrame(kind, self._kinds[kind]())
        return HostileFrame(kind, self._stream_breakers[kind](), breaks_stream=True)

    def any(self) -> HostileFrame:
        """A frame of any kind. Bombs cost most and are rarer."""
        kind = self._random.choice(self.kinds)
        if kind == "decompression bomb" and self._random.random() < 0.5:
            kind = "truncated"
        return self.make(kind)

    def _header(self, api_key: int, version: int) -> bytes:
        self._correlation_id += 1
        try:
            return encode_request_header(api_key, version, self._correlation_id, "hostile")
        except Exception:  # noqa: BLE001 - a key that no header is known for
            return struct.pack(">hhih", api_key, version, self._correlation_id, -1)

    def _weird_request(self) -> bytes:
        handler: Handler = self._random.choice(ALL)
        version = self._random.randint(handler.oldest, handler.newest)
        request = self._weird_struct(handler.api.request, version, handler.key)
        return self._header(handler.key, version) + encode(request, version)

    def _weird_struct(self, cls: type[Any], version: int, api_key: int) -> Any:
        made = cls()
        for field in describe(cls):
            if field.present_in(version):
                setattr(made, field.name, self._weird_field(field, version, api_key))
        return made

    def _weird_field(self, field: Field, version: int, api_key: int) -> Any:
        if field.nullable_in(version) and self._random.random() < 0.1:
            return None
        if field.tag is not None and self._random.random() < 0.5:
            return default_of(field)
        if field.name in ("partition", "partition_index", "partition_indexes"):
            return [0] if isinstance(field.kind, ArrayOf) else self._random.choice((0, 0, 0, -1, 1, 2**31 - 1))
        return self._weird_value(field.kind, version, api_key)

    def _weird_value(self, kind: Kind, version: int, api_key: int) -> Any:
        random = self._random
        match kind:
            case Fixed("?"):
                return random.random() < 0.5
            case Fixed("d"):
                return random.random()
            case Fixed(code):
                bound = 1 << (_BITS[code] - 1)
                return max(-bound, min(random.choice(_WEIRD_NUMBERS), bound - 1))
            case Text():
                exists = api_key in _READS and random.random() < 0.7
                return self._topic if exists else random.choice(_WEIRD_TEXT)
            case Blob():
                return random.randbytes(random.randrange(40))
            case RecordSet():
                return random.choice((b"", random.randbytes(70), self._batch()))
            case ArrayOf(item):
                return [self._weird_value(item, version, api_key) for _ in range(random.choice((0, 1, 1, 2, 5)))]
            case StructOf(cls):
                return self._weird_struct(cls, version, api_key)

    def _weird_int32(self) -> bytes:
        return _SIZE.pack(self._random.choice((-(2**31), -2, -1, 0, 1, 60, 2**31 - 1)))

    def _truncated(self) -> bytes:
        request = self._weird_request()
        return _framed(request[: self._random.randrange(1, len(request))])

    def _number_overwritten(self) -> bytes:
        request = self._weird_request()
        # Behind the API key and version, which have kinds of their own.
        at = self._random.randrange(4, max(len(request) - 3, 5))
        return _framed(_bent(request, at=at, to=self._weird_int32())[: len(request)])

    def _bits_flipped(self) -> bytes:
        request = bytearray(self._weird_request())
        for _ in range(self._random.randint(1, 4)):
            request[self._random.randrange(4, len(request))] ^= 1 << self._random.randrange(8)
        return _framed(bytes(request))

    def _unsupported_version(self) -> bytes:
        handler: Handler = self._random.choice(ALL)
        return _framed(self._header(handler.key, self._random.choice((handler.newest + 1, 99, -1, 2**15 - 1))))

    def _batch(self) -> bytes:
        codec = self._random.choice(list(Codec))
        records = [Record(0, 1_600_000_000_000, None, b"value %d" % number, ()) for number in range(3)]
        return build_batch(records, codec=codec)

    def _miscounted(self) -> bytes:
        batch = self._batch()
        header = read_header(batch)
        header.record_count = self._random.choice((-1, 0, 1, 4, 2**31 - 1))
        header.last_offset_delta = self._random.choice((-1, header.record_count - 1, 2**31 - 1))
        header.last_offset_delta = max(-(2**31), header.last_offset_delta)
        return frame(header, batch[61:])

    def _produce(self, records: bytes) -> bytes:
        return produce_frame(self._topic, records, header=self._header(ApiKey.PRODUCE, 8))


def produce_frame(topic: str, records: bytes, *, header: bytes | None = None, acks: int = -1) -> bytes:
    """A whole Produce request of version 8 for partition 0."""
    data = TopicProduceData(name=topic, partitions=[PartitionProduceData(partition_index=0, records=records)])
    request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1000, topics=[data])
    return _framed((header or encode_request_header(ApiKey.PRODUCE, 8, 1, "hostile")) + encode(request, 8))


def _framed(payload: bytes) -> bytes:
    return _SIZE.pack(len(payload)) + payload


def _bent(data: bytes, *, at: int, to: bytes) -> bytes:
    return data[:at] + to + data[at + len(to) :]
