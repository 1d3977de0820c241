"""A broker as small as a load needs: it takes every batch and has records wherever it is asked for some."""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from barnabas.protocol.compiler import encode
from barnabas.protocol.messages.fetch import FetchablePartitionResponse, FetchableTopicResponse, FetchResponse
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from bench import frames
from bench.systems import System
from tests.unit.bench.chosen_answers import framed, requests_of, serving

TOPIC = "topic"
PRODUCE, FETCH = 0, 1


def produced(error_code: int) -> bytes:
    told = TopicProduceResponse(TOPIC, [PartitionProduceResponse(0, error_code, 5)])
    return bytes(4) + encode(ProduceResponse([told]), frames.PRODUCE_VERSION)


def fetched(error_code: int, records: bytes) -> bytes:
    told = FetchablePartitionResponse(0, error_code, 9, aborted_transactions=None, record_set=records)
    response = FetchResponse(responses=[FetchableTopicResponse(TOPIC, [told])])
    return bytes(4) + encode(response, frames.FETCH_VERSION)


@dataclass(frozen=True, slots=True)
class SmallBroker(System):
    """One whose process is this one; `heard` has all requests, without their sizes."""

    heard: list[bytes] = field(default_factory=list)

    @contextlib.contextmanager
    def topic(self, **_: object) -> Iterator[str]:
        yield TOPIC

    def asked(self, api_key: int) -> list[bytes]:
        return [request for request in self.heard if struct.unpack_from(">h", request) == (api_key,)]


@contextlib.contextmanager
def small_broker() -> Iterator[SmallBroker]:
    answers = {PRODUCE: produced(0), FETCH: fetched(0, bytes(2000))}
    heard: list[bytes] = []

    def talk(peer: socket.socket) -> None:
        with contextlib.suppress(ConnectionError):
            for request in requests_of(peer):
                heard.append(request)
                peer.sendall(framed(answers[struct.unpack_from(">h", request)[0]]))

    with serving(talk) as port:
        yield SmallBroker("small", port, (os.getpid(),), heard=heard)
