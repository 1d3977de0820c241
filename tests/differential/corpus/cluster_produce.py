"""Produce to leaders, followers and brokers without a replica, and with fewer in sync than asked for."""

from tests.differential.batches import batch, sequenced
from tests.differential.cluster_conversation import NOBODY, ClusterConversation
from tests.differential.controller_requests import reassign
from tests.differential.coordinator_requests import initialise
from tests.differential.requests import list_offsets_of, produce_many, produce_to

VERSIONS = (3, 8)
ALL, ONE, NONE = -1, 1, 0


def every_version_is_refused_where_nobody_leads(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    for version in VERSIONS:
        talk.at(1).ask(f"leader, version {version}", version, produce_to(version, topic, batch(b"a")))
        talk.at(2).ask(f"follower, version {version}", version, produce_to(version, topic, batch(b"a")))
        talk.at(3).ask(f"no replica, version {version}", version, produce_to(version, topic, batch(b"a")))
    talk.at(1).ask("what is there", 5, list_offsets_of(topic, -1))


def acknowledgements(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2, 3])
    for acks in (ALL, ONE, 2, -2):
        for name, broker in (("leader", 1), ("follower", 2)):
            talk.at(broker).ask(f"{name}, acks {acks}", 8, produce_to(8, topic, batch(b"a"), acks=acks))
    talk.at(2).ask_without_answer("follower, acks 0", 8, produce_to(8, topic, batch(b"a"), acks=NONE))


def one_request_to_several_leaders(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2], [2, 3], [3, 1])
    everything: dict[int, bytes | None] = {number: batch(b"a") for number in range(4)}
    for broker in (1, 2, 3):
        request = produce_many(8, {topic: dict(everything), "never-made": {0: batch(b"a")}})
        talk.at(broker).ask(f"broker {broker}", 8, request)
    for broker in (1, 2, 3):
        talk.at(broker).ask(f"the ends of broker {broker}", 5, list_offsets_of(topic, -1, -1, -1))


def what_is_wrong_besides(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    corrupt = bytearray(batch(b"a"))
    corrupt[-1] ^= 1
    for name, broker in (("follower", 2), ("no replica", 3)):
        talk.at(broker).ask(f"{name}, a wrong checksum", 8, produce_to(8, topic, bytes(corrupt)))
        talk.at(broker).ask(f"{name}, a batch that is too large", 8, produce_to(8, topic, batch(b"x" * 1_100_000)))
        talk.at(broker).ask(f"{name}, a partition that is not there", 8, produce_to(8, topic, batch(b"a"), partition=3))
        talk.at(broker).ask(f"{name}, an idempotent producer", 8, produce_to(8, topic, sequenced(7_000, 5)))


def fewer_replicas_than_must_be_in_sync(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2], configs={"min.insync.replicas": "3"})
    for version in VERSIONS:
        request = produce_to(version, topic, batch(b"a", b"b"))
        talk.at(1).ask(f"acks all, version {version}", version, request)
    for acks in (ONE, ALL):
        talk.at(1).ask(f"acks {acks}", 8, produce_to(8, topic, batch(b"a"), acks=acks))
    talk.at(1).ask("a wrong partition beside it", 8, produce_many(8, {topic: {0: batch(b"a"), 4: batch(b"a")}}))
    talk.at(2).ask("follower", 8, produce_to(8, topic, batch(b"a")))
    talk.await_end(topic, 1, 1)
    talk.at(1).ask("what is there", 5, list_offsets_of(topic, -1))


def as_many_replicas_as_must_be_in_sync(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2, 3], configs={"min.insync.replicas": "3"})
    talk.at(1).ask("all live", 8, produce_to(8, topic, batch(b"a")))
    topic = talk.new_topic([1, 2, NOBODY], configs={"min.insync.replicas": "3"})
    talk.at(1).ask("one that is not there", 8, produce_to(8, topic, batch(b"a")))
    talk.at(1).ask("one that is not there, acks one", 8, produce_to(8, topic, batch(b"a"), acks=ONE))
    topic = talk.new_topic([1, 2, NOBODY], configs={"min.insync.replicas": "2"})
    talk.at(1).ask("one that is not there and need not", 8, produce_to(8, topic, batch(b"a")))


def where_nobody_lives(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2], [NOBODY, NOBODY + 1])
    for broker in (1, 3):
        talk.at(broker).ask(f"broker {broker}", 8, produce_to(8, topic, batch(b"a"), partition=1))


def brokers_that_led_before_a_move(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    talk.at(1).write(topic, batch(b"a"))
    talk.at_controller.prepare(0, reassign({topic: {0: [3, 2]}}))
    talk.await_replicas(topic, [3, 2])
    for name, broker in (("the old leader", 1), ("the follower", 2), ("the new leader", 3)):
        talk.at(broker).ask(name, 8, produce_to(8, topic, batch(b"b")))


def sequences_that_a_new_leader_knows(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    producer = talk.at(1).prepare(4, initialise(None)).producer_id
    talk.at(1).write(topic, sequenced(producer, 0, 2), sequenced(producer, 2))
    talk.at_controller.prepare(0, reassign({topic: {0: [3]}}))
    talk.await_replicas(topic, [3])
    cases = {"the last again": (2, 1), "the first again": (0, 2), "the next": (3, 1), "a gap": (9, 1)}
    for name, (sequence, count) in cases.items():
        talk.at(3).ask(name, 8, produce_to(8, topic, sequenced(producer, sequence, count)))
    talk.at(1).ask("the old leader", 8, produce_to(8, topic, sequenced(producer, 4)))
