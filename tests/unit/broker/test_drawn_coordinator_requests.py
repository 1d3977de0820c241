"""Requests to coordinators that nobody in his right mind sends: each answer has a code that says what is wrong."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import response_framer
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import Blob, Fixed, RecordSet, Text
from barnabas.protocol.schema import ArrayOf, Field, Kind, StructOf, default_of, describe
from broker.registry import Handler, Parked
from broker.request_context import RequestContext
from tests.unit.broker.group_talk import SMALL, GroupTalk
from tests.unit.broker.whole_broker import BrokerHost, make_topic

_REQUESTS: Final = 1_500
_PATIENCE_S: Final = 0.03
_ASKED: Final = (
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
)
_NAMES: Final = {
    "group_id": ("g", "h"),
    "protocol_type": ("consumer",),
    "protocol_name": ("range",),
    "name": ("t", "range", "__consumer_offsets"),
    "topic": ("t",),
    "transactional_id": ("x", "y"),
    "committed_metadata": ("", "m" * 100, "m" * 32_767),
}
_ANY_NAME: Final = ("", "\0", "é" * 16_000, "a" * 300, "m" * 32_767)
_LARGE: Final = b"z" * 100_000
"""More than a batch of the internal topics may have."""
_NUMBERS: Final = {
    "b": (0, 1, -1, 127, -128),
    "h": (0, 0, 1, -1, 2**15 - 1, -(2**15)),
    "i": (0, 0, 0, 1, -1, 10_000, 2**31 - 1, -(2**31)),
    "q": (0, 0, 1, -1, 1_000, 2**63 - 1, -(2**63)),
    "?": (False, True),
    "d": (0.0,),
}


@dataclass
class Drawing:
    """Makes requests of everything that their fields can hold, half of them with what was answered before."""

    rng: random.Random
    known: list[dict[str, Any]] = field(default_factory=list)
    """Fields of members and producers that there are, or were a moment ago."""

    def message(self, cls: type[Any], version: int) -> Any:
        rng = self.rng
        known: dict[str, Any] = {}
        if rng.random() < 0.5:
            for each in rng.sample(self.known, k=min(2, len(self.known))):
                known |= each
        return self._struct(cls, version, known)

    def _struct(self, cls: type[Any], version: int, known: dict[str, Any]) -> Any:
        return cls(*(self._field(each, version, known) for each in describe(cls)))

    def _field(self, each: Field, version: int, known: dict[str, Any]) -> Any:
        if not each.present_in(version):
            return default_of(each)
        if each.name in known and (known[each.name] is not None or each.nullable_in(version)):
            return known[each.name]
        if each.nullable_in(version) and self.rng.random() < 0.3:
            return None
        if each.name == "session_timeout_ms" and self.rng.random() < 0.9:
            return 10_000
        return self._value(each.kind, version, each.name)

    def _value(self, kind: Kind, version: int, name: str) -> Any:
        rng = self.rng
        match kind:
            case Fixed(code):
                return rng.choice(_NUMBERS[code])
            case Text():
                return rng.choice(_NAMES[name] if name in _NAMES and rng.random() < 0.85 else _ANY_NAME)
            case Blob() | RecordSet():
                return rng.choice((b"", b"x", b"\xff" * 200, _LARGE))
            case ArrayOf(item):
                return [self._value(item, version, name) for _ in range(rng.choice((0, 1, 1, 2)))]
            case StructOf(cls):
                return self._struct(cls, version, {})
        raise AssertionError(kind)

    def learn(self, key: ApiKey, request: Any, answer: Any) -> None:
        if key is ApiKey.JOIN_GROUP and answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            member = {"generation_id": answer.generation_id, "member_id": answer.member_id}
            group = {"group_id": request.group_id, "group_instance_id": request.group_instance_id}
            self._remember(group | member | {"protocol_type": "consumer", "protocol_name": "range"})
        if key is ApiKey.INIT_PRODUCER_ID and answer.error_code == ErrorCode.NONE:
            producer = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
            self._remember(producer | {"transactional_id": request.transactional_id})

    def _remember(self, known: dict[str, Any]) -> None:
        self.known = [*self.known[-3:], known]


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[GroupTalk]:
    host = BrokerHost(tmp_path)
    settings = SMALL | {"offsets.topic.segment.bytes": "20000", "offset.metadata.max.bytes": "40000"}
    broker = await host.start(**{name.replace(".", "_"): text for name, text in settings.items()})
    await make_topic(broker, partitions=2)
    talk = GroupTalk(broker)
    await talk.find("g")
    await talk.find("x", 1)
    yield talk
    await broker.stop()
    await host.close()
    assert not host.failures


async def answered(handler: Handler, request: Any, context: RequestContext) -> Any:
    """The response; None where the request is parked until others come."""
    found = handler.handle(request, context)
    if isinstance(found, Awaitable):
        task = asyncio.ensure_future(found)
        await asyncio.wait((task,), timeout=_PATIENCE_S)
        if not task.done():
            return None
        found = task.result()
    return await found.future if isinstance(found, Parked) else found


def error_codes(answer: Any) -> list[int]:
    """All that an answer has, however deep."""
    codes = []
    for each in describe(type(answer)):
        value = getattr(answer, each.name)
        if each.name == "error_code":
            codes.append(value)
        elif isinstance(each.kind, ArrayOf) and isinstance(each.kind.item, StructOf):
            codes += [code for item in value for code in error_codes(item)]
    return codes


async def test_no_request_is_answered_with_an_unknown_error_or_costs_a_machine(talk: GroupTalk, seed: int) -> None:
    services = talk.broker.services
    handlers = [each for each in services.registry.handlers() if each.key in _ASKED]
    assert len(handlers) == len(_ASKED)
    drawing = Drawing(random.Random(seed))
    for _ in range(_REQUESTS):
        handler = drawing.rng.choice(handlers)
        version = drawing.rng.randint(handler.oldest, handler.newest)
        request = drawing.message(handler.api.request, version)
        client_id = drawing.rng.choice((None, "", "c" * 32_000))
        context = RequestContext(services, version, 1, client_id, "127.0.0.1", "PLAINTEXT")
        answer = await answered(handler, request, context)
        if answer is not None:
            assert ErrorCode.UNKNOWN_SERVER_ERROR not in error_codes(answer), request
            response_framer(handler.key, version)(answer, 1)
            drawing.learn(handler.key, request, answer)
    for shard in (*services.coordination.groups.values(), *services.coordination.transactions.values()):
        assert shard.is_loaded
        assert shard.counts.drops == shard.counts.failed_appends == 0
