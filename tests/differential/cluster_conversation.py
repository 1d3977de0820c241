"""A scenario's talk with the three brokers of a cluster, whose ids are 1, 2 and 3.

Each broker is talked with as if it were alone (conversation.py), under names that the scenario shares. Replicas are
assigned by hand, so that it is known who leads, who follows and who has nothing; who is the controller is found by
asking, and an answer names it by its role. What is prepared is awaited at every broker, because each of them hears of
it in its own time.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages import find_coordinator, metadata
from tests.differential.batches import batch
from tests.differential.controller_requests import elect, moves_of, reassign
from tests.differential.conversation import Conversation, Server, SetupFailed
from tests.differential.normalise import Value
from tests.differential.requests import (
    BROKER,
    SET,
    TOPIC,
    a_topic,
    change,
    create,
    fetch_from,
    fetch_partition,
    metadata_of,
)

BROKERS = (1, 2, 3)
NOBODY = 9
"""A broker that there is not."""

_SETUP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where requests go, by the ids of the brokers."""

    servers: Mapping[int, Server]


class ClusterConversation:
    """One scenario against one cluster."""

    def __init__(self, cluster: Cluster, group: str, scenario: str) -> None:
        first = Conversation(cluster.servers[1], group, scenario)
        first.name_roles()
        self.scenario = scenario
        self.answers = first.answers
        self.asked = first.asked
        self.topic_name = first.topic_name
        self._talks = {
            broker: first if broker == 1 else first.beside(server) for broker, server in cluster.servers.items()
        }
        self._controller: int | None = None

    def at(self, broker: int) -> Conversation:
        """The talk with one broker."""
        return self._talks[broker]

    @property
    def controller(self) -> int:
        """The broker that all brokers take for the controller. Nothing ends here, so it stays."""
        if self._controller is None:
            named: set[int] = set()

            def agreed() -> bool:
                named.clear()
                named.update(talk.prepare(4, metadata_of()).controller_id for talk in self._talks.values())
                return len(named) == 1 and min(named) >= 0

            await_that(agreed, lambda: "they do not agree on a controller")
            (self._controller,) = named
        return self._controller

    @property
    def at_controller(self) -> Conversation:
        return self.at(self.controller)

    @property
    def others(self) -> tuple[int, int]:
        """The two that are not the controller."""
        first, second = (broker for broker in BROKERS if broker != self.controller)
        return first, second

    def new_topic(self, *replicas: Sequence[int], configs: Mapping[str, str | None] | None = None) -> str:
        """Create a topic with these replicas for each partition, led by the first that lives. Not recorded."""
        name = self.topic_name()
        assignments = {number: list(brokers) for number, brokers in enumerate(replicas)}
        led = [number for number, brokers in assignments.items() if set(brokers) & set(BROKERS)]
        # Nobody will ever lead the others, and no broker hears of them: that is not waited for.
        has_leaderless = len(led) < len(assignments)
        topic = a_topic(name, -1, -1, assignments=assignments, configs=dict(configs or {}))
        wanted = create(topic, timeout_ms=0 if has_leaderless else 15_000)
        (made,) = self.at_controller.prepare(4, wanted).topics
        if made.error_code != (ErrorCode.REQUEST_TIMED_OUT if has_leaderless else ErrorCode.NONE):
            raise SetupFailed(f"{name}: {ErrorCode(made.error_code).name}")
        for number in led:
            self.await_replicas(name, assignments[number], partition=number)
        return name

    def written_topic(self, *replicas: int) -> str:
        """Create a topic of three batches whose followers have them all and know that they are committed."""
        topic = self.new_topic(replicas)
        self.at(replicas[0]).write(topic, batch(b"a", b"b"), batch(b"c"), batch(b"d", b"e"))
        self.await_end(topic, 5, *replicas)
        return topic

    def topic_led_twice(self) -> str:
        """Create a topic led by broker 2, followed by broker 1, whose leader epoch is not the first."""
        topic = self.written_topic(1, 2)
        self.at_controller.prepare(0, reassign({topic: {0: [2, 1]}}))
        self.await_replicas(topic, [2, 1], leader=1)
        self.at_controller.prepare(2, elect({topic: [0]}))
        self.await_replicas(topic, [2, 1])
        self.at(2).write(topic, batch(b"f"))
        self.await_end(topic, 6, 1, 2)
        return topic

    def await_replicas(
        self,
        topic: str,
        replicas: Sequence[int],
        *,
        partition: int = 0,
        in_sync: Sequence[int] | None = None,
        leader: int | None = None,
    ) -> None:
        """Return when every broker knows these replicas in this order, all that live in sync and the first of them as
        the leader unless told. Not recorded."""
        live = [broker for broker in (replicas if in_sync is None else in_sync) if broker in BROKERS]
        wanted = list(replicas), sorted(live), leader or (live[0] if live else -1)
        found: dict[int, Any] = {}

        def settled() -> bool:
            for broker in BROKERS:
                one = self.described(topic, partition, broker=broker)
                found[broker] = one and (one.replica_nodes, sorted(set(one.isr_nodes) & set(BROKERS)), one.leader_id)
            return all(one == wanted for one in found.values())

        await_that(settled, lambda: f"{topic} is {found} instead of {wanted}")

    def await_no_moves(self, topic: str) -> None:
        """Return when the controller has finished the move of a topic's first partition. Not recorded."""
        asked = moves_of({topic: [0]})
        await_that(lambda: not self.at_controller.prepare(0, asked).topics, lambda: f"{topic} still moves")

    def described(self, topic: str, partition: int = 0, *, broker: int = 1) -> Any:
        """A partition as a broker's Metadata has it, or None. Not recorded."""
        (found,) = self.at(broker).prepare(7, metadata_of(topic)).topics
        return next((one for one in found.partitions if one.partition_index == partition), None)

    def epoch(self, topic: str) -> int:
        """The leader epoch of a topic's first partition. Not recorded."""
        found: int = self.described(topic).leader_epoch
        return found

    def await_end(self, topic: str, offset: int, *brokers: int) -> None:
        """Return when consumers of these brokers may read up to an offset. Not recorded."""
        for broker in brokers:
            asked = fetch_from(topic, fetch_partition(0, max_bytes=1))

            def readable(broker: int = broker, asked: object = asked) -> bool:
                (found,) = self.at(broker).prepare(11, asked).responses[0].partition_responses
                high_watermark: int = found.high_watermark
                return high_watermark >= offset

            await_that(readable, lambda broker=broker: f"{topic} at broker {broker} does not end at {offset}")

    def coordinator(self, key: str, key_type: int = 0) -> int:
        """The coordinator that all brokers name. Not recorded."""
        named: set[int] = set()

        def agreed() -> bool:
            asked = find_coordinator.FindCoordinatorRequest(key, key_type)
            named.clear()
            named.update(talk.prepare(1, asked).node_id for talk in self._talks.values())
            return len(named) == 1 and min(named) >= 0

        await_that(agreed, lambda: f"they do not agree on a coordinator of {key}")
        (found,) = named
        return found

    def set_topic_config(self, topic: str, key: str, value: str) -> None:
        """Set a key of a topic; `set_broker_config` tells when a broker has it. Not recorded."""
        self._alter(self.at(1), TOPIC, topic, (key, value))

    def set_broker_config(self, broker: int, key: str, value: str) -> None:
        """Set a dynamic key of a broker to a value that it had not, and return when the broker tells it. As changes
        come to a broker in their order, it has all that were made before. Not recorded."""
        self._alter(self.at(broker), BROKER, str(broker), (key, value))
        self.at(broker).await_broker_config(key, value, broker=broker)

    def _alter(self, talk: Conversation, kind: int, name: str, setting: tuple[str, str]) -> None:
        (result,) = talk.prepare(0, change((kind, name, [(setting[0], SET, setting[1])]))).responses
        if result.error_code != ErrorCode.NONE:
            raise SetupFailed(f"{setting} of {name}: {ErrorCode(result.error_code).name}")

    def note(self, name: str, value: Value) -> None:
        """Record something seen that is not an answer."""
        self.at(1).note(name, value)

    def close(self) -> None:
        """Close every connection of the scenario."""
        for talk in self._talks.values():
            talk.close()


def metadata_of_all() -> metadata.MetadataRequest:
    """A Metadata request of every topic, for version 1 or later."""
    return metadata.MetadataRequest(None, allow_auto_topic_creation=False)


def await_that(is_so: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    """Return when it is so; where it takes too long, the scenario says nothing."""
    deadline = time.monotonic() + _SETUP_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise SetupFailed(otherwise())
        time.sleep(0.01)
