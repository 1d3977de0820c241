"""A scenario's talk with one server: what is asked under which name, and what came back.

Requests leave as bytes on a plain connection, one after the other. An answer is kept as plain values with ids, times
and addresses replaced (normalise.py), or as one of the two words for what is no message: the connection was closed, or
no answer came. After a close the next request opens a new connection. Preparations that no test is about go over a
second connection and leave no trace.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from barnabas.protocol.compiler import decode_whole, encode
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import decode_response_header, encode_request_header
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import (
    APIS,
    create_topics,
    delete_topics,
    describe_configs,
    end_txn,
    find_coordinator,
    list_offsets,
    metadata,
    offset_fetch,
    produce,
)
from barnabas.protocol.primitives import WireError
from barnabas.protocol.schema import describe
from tests.differential.normalise import Normaliser, Value
from tests.support.raw_client import ConnectionClosed, NoAnswer, RawConnection

CLIENT_ID = "differential"
CLOSED = "connection closed"
NO_ANSWER = "no answer"
_SETUP_SECONDS = 20.0
_PROBE_CORRELATION_ID = 0x0BAD
_NOT_READY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


class SetupFailed(Exception):
    """A preparation was refused, so that the scenario says nothing."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where requests go."""

    host: str
    port: int


@dataclass(slots=True)
class Pending:
    """A request that was sent and whose answer has not been read yet."""

    name: str
    api_key: ApiKey
    version: int
    correlation_id: int
    connection: RawConnection


@dataclass(slots=True)
class Conversation:
    """One scenario against one server. `answers` grows by one per request that is asked by name.

    `asked` collects the API keys and versions that were answered by a message.
    """

    server: Server
    group: str
    scenario: str
    answers: dict[str, Value] = field(default_factory=dict)
    asked: set[tuple[int, int]] = field(default_factory=set)
    _connection: RawConnection | None = None
    _setup: "RawConnection | None" = None
    _extra: list[RawConnection] = field(default_factory=list)
    _correlation_id: int = 100
    _topics: int = 0
    _normaliser: Normaliser = field(init=False)

    def __post_init__(self) -> None:
        self._normaliser = Normaliser(self.topic_prefix)

    @property
    def topic_prefix(self) -> str:
        return f"{self.group}-{self.scenario}".replace("_", "-")[:200]

    def ask(self, name: str, version: int, request: object, *, client_id: str | None = CLIENT_ID) -> Any:
        """Send a request and record its answer. Returns the decoded answer, or None where there is none."""
        return self.receive(self.send(name, version, request, client_id=client_id))

    def send(
        self, name: str, version: int, request: object, *, client_id: str | None = CLIENT_ID, apart: bool = False
    ) -> Pending:
        """Send a request and leave its answer for `receive`; `apart` uses a connection of its own."""
        key = api_key_of(request)
        correlation_id = self._next_correlation_id()
        payload = encode_request_header(key, version, correlation_id, client_id) + encode(request, version)
        connection = self._apart() if apart else self._connected()
        connection.send_frame(payload)
        return Pending(name, key, version, correlation_id, connection)

    def ask_until(self, name: str, version: int, request: object, *, passing: Collection[int]) -> Any:
        """Ask again while the answer holds one of these errors, and record the first that does not."""
        deadline = time.monotonic() + _SETUP_SECONDS
        while True:
            pending = self.send(name, version, request)
            answer = self._decoded(pending)
            if isinstance(answer, str) or not errors_of(answer) & set(passing):
                return self._record(pending, answer)
            if time.monotonic() > deadline:
                raise SetupFailed(f"{name}: still {answer}")
            time.sleep(0.01)

    def ask_until_gone(self, name: str, version: int, request: object) -> Any:
        """Ask again while the answer has topics, and record the first that has none."""
        deadline = time.monotonic() + _SETUP_SECONDS
        while self.prepare(version, request).topics:
            if time.monotonic() > deadline:
                raise SetupFailed(f"{name}: topics are still there")
            time.sleep(0.01)
        return self.ask(name, version, request)

    def is_waiting(self, pending: Pending, *, seconds: float = 0.2) -> bool:
        """Whether no answer came within that time."""
        return not pending.connection.has_input(seconds)

    def receive(self, pending: Pending) -> Any:
        """Record the answer of a request that was sent."""
        return self._record(pending, self._decoded(pending))

    def ask_bytes(
        self, name: str, payload: bytes, *, api_key: ApiKey, version: int, correlation_id: int, size: int | None = None
    ) -> Any:
        """Send a frame as it is, behind its size or another one, and record the answer as one of that API."""
        connection = self._connected()
        announced = len(payload) if size is None else size
        connection.send_bytes(announced.to_bytes(4, "big", signed=True) + payload)
        return self.receive(Pending(name, api_key, version, correlation_id, connection))

    def send_slowly(self, name: str, payload: bytes, *, api_key: ApiKey, version: int, correlation_id: int) -> Any:
        """Send a frame with a segment for each byte, and record its answer."""
        connection = self._connected()
        for byte in len(payload).to_bytes(4, "big") + payload:
            connection.send_bytes(bytes([byte]))
        return self.receive(Pending(name, api_key, version, correlation_id, connection))

    def ask_without_answer(self, name: str, version: int, request: object) -> None:
        """Send a request that should stay without an answer; the next answer on the connection tells."""
        pending = self.send(name, version, request)
        probe = encode_request_header(ApiKey.API_VERSIONS, 0, _PROBE_CORRELATION_ID, CLIENT_ID)
        pending.connection.send_frame(probe)
        try:
            frame = pending.connection.receive_frame()
        except ConnectionClosed:
            self._close()
            self._keep(name, CLOSED)
            return
        if int.from_bytes(frame[:4], "big") == _PROBE_CORRELATION_ID:
            self._keep(name, NO_ANSWER)
            return
        self._record(pending, self._parsed(pending, frame))
        pending.connection.receive_frame()

    def note(self, name: str, value: Value) -> None:
        """Record something seen that is not an answer."""
        self._keep(name, value)

    def beside(self, server: Server) -> "Conversation":
        """The same scenario's talk with another server: what is noted goes to one place, and ids keep their names."""
        other = Conversation(server, self.group, self.scenario, self.answers, self.asked)
        other._normaliser = self._normaliser
        return other

    def show_content(self) -> None:
        """Record batches by their records from now on: the server compresses in what follows."""
        self._normaliser.shows_content = True

    def name_roles(self) -> None:
        """Name the controller and coordinators by their roles from now on: each may be any of several brokers."""
        self._normaliser.names_roles = True

    def reconnect(self) -> None:
        """Close the connection; the next request opens a new one."""
        self._close()

    def topic_name(self) -> str:
        """A name that no other scenario uses."""
        self._topics += 1
        return f"{self.topic_prefix}-{self._topics}"

    def new_topic(self, partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        """Create a topic and return its name once all its partitions have leaders. Not recorded."""
        name = self.topic_name()
        deadline = time.monotonic() + _SETUP_SECONDS
        while error := self._create(name, partitions, configs or {}):
            # A broker that has only just started does not count itself among the live ones yet.
            if error != ErrorCode.INVALID_REPLICATION_FACTOR or time.monotonic() > deadline:
                raise SetupFailed(f"{name}: {error.name}")
            time.sleep(0.05)
        self.await_leaders(name, partitions)
        return name

    def await_broker_config(self, key: str, value: str | None, *, broker: int = 1) -> None:
        """Return when the broker tells this value, or none, of a key that ZooKeeper sets. Not recorded."""
        resource = describe_configs.DescribeConfigsResource(4, str(broker), [key])
        wanted = describe_configs.DescribeConfigsRequest([resource])
        deadline = time.monotonic() + _SETUP_SECONDS
        while True:
            (result,) = self.prepare(1, wanted).results
            told = [each.value for each in result.configs if each.config_source in (2, 3)]
            if told == ([] if value is None else [value]):
                return
            if time.monotonic() > deadline:
                raise SetupFailed(f"{key} is {told}")
            time.sleep(0.01)

    def new_group(self) -> str:
        """A group id that no other scenario uses, once its coordinator serves it. Not recorded."""
        group_id = self.topic_name()
        self._await_coordinator(group_id, 0)
        asked = offset_fetch.OffsetFetchRequest(group_id, [])
        self._await_errors(_NOT_READY, 3, asked)
        return group_id

    def new_transactional_id(self) -> str:
        """A transactional id that no other scenario uses, once its coordinator serves it. Not recorded."""
        transactional_id = self.topic_name()
        self._await_coordinator(transactional_id, 1)
        self._await_errors(_NOT_READY, 0, end_txn.EndTxnRequest(transactional_id, 1, 0, committed=True))
        return transactional_id

    def _await_coordinator(self, key: str, key_type: int) -> None:
        self._await_errors(_NOT_READY, 1, find_coordinator.FindCoordinatorRequest(key, key_type))

    def _await_errors(self, passing: set[ErrorCode], version: int, request: object) -> None:
        deadline = time.monotonic() + _SETUP_SECONDS
        while errors_of(answer := self.prepare(version, request)) & passing:
            if time.monotonic() > deadline:
                raise SetupFailed(f"still {answer}")
            time.sleep(0.02)

    def create_again(self, name: str) -> None:
        """Create a topic of a name that was just deleted; Kafka answers a deletion before the name is free."""
        deadline = time.monotonic() + _SETUP_SECONDS
        while self._create(name, 1, {}) == ErrorCode.TOPIC_ALREADY_EXISTS:
            if time.monotonic() > deadline:
                raise SetupFailed(f"{name} is still there")
            time.sleep(0.01)
        self.await_leaders(name, 1)

    def await_leaders(self, topic: str, partitions: int) -> None:
        """Return when a topic has that many partitions, each with a leader. Not recorded."""
        deadline = time.monotonic() + _SETUP_SECONDS
        request = metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        while True:
            (found,) = self.prepare(4, request).topics
            if len([one for one in found.partitions if one.leader_id >= 0]) == partitions:
                return
            if time.monotonic() > deadline:
                raise SetupFailed(f"{topic} has {len(found.partitions)} partitions, error {found.error_code}")
            time.sleep(0.01)

    def await_absence(self, topic: str) -> None:
        """Return when a topic is gone from the server's metadata and from its replicas. Not recorded."""
        wanted = metadata.MetadataRequest([metadata.MetadataRequestTopic(topic)], allow_auto_topic_creation=False)
        partition = list_offsets.ListOffsetPartition(timestamp=-1)
        asked = list_offsets.ListOffsetRequest(-1, 0, [list_offsets.ListOffsetTopic(topic, [partition])])
        deadline = time.monotonic() + _SETUP_SECONDS
        while (
            self.prepare(4, wanted).topics[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            or self.prepare(1, asked).topics[0].partitions[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ):
            if time.monotonic() > deadline:
                raise SetupFailed(f"{topic} is still there")
            time.sleep(0.01)

    def write(self, topic: str, *batches: bytes, partition: int = 0) -> None:
        """Append batches, one request each. Not recorded."""
        for batch in batches:
            data = produce.PartitionProduceData(partition_index=partition, records=batch)
            wanted = [produce.TopicProduceData(name=topic, partitions=[data])]
            request = produce.ProduceRequest(transactional_id=None, acks=-1, timeout_ms=15_000, topics=wanted)
            (result,) = self.prepare(3, request).responses[0].partitions
            if result.error_code != ErrorCode.NONE:
                raise SetupFailed(f"{topic}: {ErrorCode(result.error_code).name}")

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and return when it is gone. Not recorded."""
        (result,) = self.prepare(1, delete_topics.DeleteTopicsRequest([topic], 15_000)).responses
        if result.error_code != ErrorCode.NONE:
            raise SetupFailed(f"{topic}: {ErrorCode(result.error_code).name}")
        self.await_absence(topic)

    def close(self) -> None:
        """Close every connection of the scenario."""
        self._close()
        for connection in [*self._extra, *([self._setup] if self._setup else [])]:
            connection.close()

    def _create(self, name: str, partitions: int, configs: dict[str, str]) -> ErrorCode:
        topic = create_topics.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[create_topics.CreateableTopicConfig(key, value) for key, value in configs.items()],
        )
        answer = self.prepare(2, create_topics.CreateTopicsRequest([topic], 15_000))
        return ErrorCode(answer.topics[0].error_code)

    def prepare(self, version: int, request: object) -> Any:
        """Ask over the second connection. Not recorded."""
        if self._setup is None:
            self._setup = RawConnection(self.server.host, self.server.port, timeout_seconds=_SETUP_SECONDS)
        key = api_key_of(request)
        header = encode_request_header(key, version, 1, "setup")
        self._setup.send_frame(header + encode(request, version))
        frame = self._setup.receive_frame()
        _, position = decode_response_header(key, version, frame)
        return decode_whole(APIS[key].response, version, frame, position)

    def _decoded(self, pending: Pending) -> Any:
        try:
            return self._parsed(pending, pending.connection.receive_frame())
        except ConnectionClosed:
            return CLOSED
        except NoAnswer:
            return NO_ANSWER

    def _parsed(self, pending: Pending, frame: bytes) -> Any:
        key, version = pending.api_key, pending.version
        try:
            correlation_id, position = decode_response_header(key, version, frame)
            if correlation_id != pending.correlation_id:
                return f"answer to {correlation_id} instead of {pending.correlation_id}"
            return decode_whole(APIS[key].response, version, frame, position)
        except WireError as error:
            return f"{type(error).__name__} in {frame.hex()}"

    def _record(self, pending: Pending, answer: Any) -> Any:
        if isinstance(answer, str):
            self._keep(pending.name, answer)
            if pending.connection is self._connection:
                self._close()
            return None
        self.asked.add((pending.api_key, pending.version))
        self._keep(pending.name, self._normaliser.message(answer, pending.version))
        return answer

    def _keep(self, name: str, value: Value) -> None:
        full_name = f"{self.scenario}: {name}"
        assert full_name not in self.answers, f"two requests are called {full_name!r}"
        self.answers[full_name] = value

    def _next_correlation_id(self) -> int:
        self._correlation_id += 1
        return self._correlation_id

    def _connected(self) -> RawConnection:
        if self._connection is None:
            self._connection = RawConnection(self.server.host, self.server.port)
        return self._connection

    def _apart(self) -> RawConnection:
        connection = RawConnection(self.server.host, self.server.port)
        self._extra.append(connection)
        return connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def errors_of(message: Any) -> set[int]:
    """All error codes that an answer holds, at any depth."""
    found: set[int] = set()
    for declared in describe(type(message)):
        value = getattr(message, declared.name)
        if declared.name == "error_code":
            found.add(value)
        elif isinstance(value, list):
            found.update(*(errors_of(one) for one in value if hasattr(one, "__slots__")))
    return found


def api_key_of(request: object) -> ApiKey:
    """The API that a request belongs to."""
    for key, api in APIS.items():
        if isinstance(request, api.request):
            return key
    raise AssertionError(f"{type(request).__name__} belongs to no API")
