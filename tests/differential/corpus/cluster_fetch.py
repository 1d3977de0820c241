"""Fetch of consumers from leaders, followers and brokers without a replica, with epochs and racks."""

from tests.differential.batches import batch
from tests.differential.cluster_conversation import NOBODY, ClusterConversation
from tests.differential.controller_requests import reassign
from tests.differential.requests import fetch_from, fetch_partition, fetch_topics

VERSIONS = (0, 3, 4, 10, 11, 12)
EPOCH_VERSIONS = (9, 12)
RACK_VERSIONS = (11, 12)


def every_version(talk: ClusterConversation) -> None:
    topic = talk.written_topic(1, 2)
    for version in VERSIONS:
        for name, broker in (("leader", 1), ("follower", 2), ("no replica", 3)):
            talk.at(broker).ask(f"{name}, version {version}", version, fetch_from(topic))


def offsets_at_a_follower(talk: ClusterConversation) -> None:
    topic = talk.written_topic(1, 2)
    for offset in (0, 1, 3, 5, 6, 99, -1):
        talk.at(2).ask(f"offset {offset}", 11, fetch_from(topic, fetch_partition(offset)))
    talk.at(2).ask("read committed", 11, fetch_from(topic, isolation_level=1))
    talk.at(2).ask("a partition that is not there", 11, fetch_from(topic, fetch_partition(partition=4)))
    talk.at(2).ask("a topic that is not there", 11, fetch_from("never-made"))


def epochs_that_consumers_know(talk: ClusterConversation) -> None:
    topic = talk.topic_led_twice()
    now = talk.epoch(topic)
    epochs = {"none": -1, "an old one": now - 1, "this one": now, "one to come": now + 1}
    for name, epoch in epochs.items():
        for version in EPOCH_VERSIONS:
            for where, broker in (("leader", 2), ("follower", 1), ("no replica", 3)):
                request = fetch_from(topic, fetch_partition(leader_epoch=epoch))
                talk.at(broker).ask(f"{where}, {name}, version {version}", version, request)


def epochs_that_consumers_read_last(talk: ClusterConversation) -> None:
    topic = talk.topic_led_twice()
    for last in (0, 1):
        for offset in (5, 6):
            request = fetch_from(topic, fetch_partition(offset, last_fetched_epoch=last))
            talk.at(2).ask(f"leader, epoch {last}, offset {offset}", 12, request)
            talk.at(1).ask(f"follower, epoch {last}, offset {offset}", 12, request)


def the_rack_of_a_consumer(talk: ClusterConversation) -> None:
    topic = talk.written_topic(1, 2)
    for version in RACK_VERSIONS:
        for rack in ("", "rack-1", "rack-2", "rack-3", "nowhere", "RACK-2"):
            talk.at(1).ask(f"leader, {rack!r}, version {version}", version, fetch_from(topic, rack_id=rack))
    for rack in ("rack-1", "rack-2"):
        talk.at(2).ask(f"follower, {rack!r}", 11, fetch_from(topic, rack_id=rack))
    talk.at(3).ask("no replica", 11, fetch_from(topic, rack_id="rack-3"))
    talk.at(1).ask("before version 11", 10, fetch_from(topic, rack_id=""))


def the_rack_of_a_consumer_and_offsets(talk: ClusterConversation) -> None:
    topic = talk.written_topic(1, 2, 3)
    for offset in (0, 4, 5, 6, 99):
        request = fetch_from(topic, fetch_partition(offset), rack_id="rack-3")
        talk.at(1).ask(f"offset {offset}", 11, request)
    talk.at(1).ask("read committed", 11, fetch_from(topic, rack_id="rack-3", isolation_level=1))
    talk.at(1).ask("a broker that debugs", 11, fetch_from(topic, rack_id="rack-3", replica_id=-2))
    talk.at(1).ask("a follower", 11, fetch_from(topic, fetch_partition(5), rack_id="rack-3", replica_id=2))


def a_preferred_replica_is_told_at_once(talk: ClusterConversation) -> None:
    topic = talk.written_topic(1, 2, 3)
    request = fetch_from(topic, fetch_partition(0), rack_id="rack-3", min_bytes=1_000_000, max_wait_ms=1_500)
    pending = talk.at(1).send("with records to be had", 11, request)
    talk.note("it waits", talk.at(1).is_waiting(pending, seconds=0.5))
    talk.at(1).receive(pending)


def one_request_to_several_leaders(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2], [2, 3], [3, 1])
    for number, leader in enumerate((1, 2, 3)):
        talk.at(leader).write(topic, batch(b"a"), partition=number)
    partitions = [fetch_partition(partition=number) for number in range(4)]
    for version in (4, 10):
        for broker in (1, 2, 3):
            request = fetch_topics({topic: partitions, "never-made": partitions[:1]})
            talk.at(broker).ask(f"broker {broker}, version {version}", version, request)


def where_nobody_lives(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2], [NOBODY, NOBODY + 1])
    for broker in (1, 3):
        for version in (4, 11):
            request = fetch_from(topic, fetch_partition(partition=1))
            talk.at(broker).ask(f"broker {broker}, version {version}", version, request)


def after_a_move(talk: ClusterConversation) -> None:
    topic = talk.written_topic(1, 2)
    talk.at_controller.prepare(0, reassign({topic: {0: [3, 2]}}))
    talk.await_replicas(topic, [3, 2])
    talk.await_end(topic, 5, 2, 3)
    for name, broker in (("the old leader", 1), ("the follower", 2), ("the new leader", 3)):
        for version in (10, 11):
            talk.at(broker).ask(f"{name}, version {version}", version, fetch_from(topic))


def a_session_over_several_leaders(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2], [2, 3], [3, 1])
    talk.at(1).write(topic, batch(b"a"))
    partitions = [fetch_partition(partition=number) for number in range(3)]
    first = talk.at(1).ask("begun", 10, fetch_topics({topic: partitions}, session=(0, 0)))
    talk.at(1).ask("nothing new", 10, fetch_topics({}, session=(first.session_id, 1)))
    request = fetch_topics({topic: [fetch_partition(1)]}, session=(first.session_id, 2))
    talk.at(1).ask("what was read", 10, request)
    talk.at(2).ask("at another broker", 10, fetch_topics({}, session=(first.session_id, 3)))


def records_that_a_consumer_of_a_follower_waits_for(talk: ClusterConversation) -> None:
    topic = talk.written_topic(1, 2)
    # Kafka 2.7 does not wake it: what came is told at the end of its time.
    request = fetch_from(topic, fetch_partition(5), min_bytes=1, max_wait_ms=1_500)
    pending = talk.at(2).send("waiting", 11, request)
    talk.note("it waits", talk.at(2).is_waiting(pending))
    talk.at(1).write(topic, batch(b"f"))
    talk.at(2).receive(pending)


def errors_are_told_at_once(talk: ClusterConversation) -> None:
    topic = talk.written_topic(1, 2)
    for name, broker, version in (("follower", 2, 10), ("no replica", 3, 10), ("no replica", 3, 11)):
        request = fetch_from(topic, min_bytes=1_000_000, max_wait_ms=1_500)
        pending = talk.at(broker).send(f"{name}, version {version}", version, request)
        talk.note(f"{name}, version {version}, waits", talk.at(broker).is_waiting(pending, seconds=0.5))
        talk.at(broker).receive(pending)
