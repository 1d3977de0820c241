"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords at leaders, followers and brokers without a replica."""

from collections.abc import Iterator

from tests.differential.batches import T0_MS, batch
from tests.differential.cluster_conversation import BROKERS, NOBODY, ClusterConversation
from tests.differential.controller_requests import delete_before
from tests.differential.requests import epoch_end, fetch_from, list_offsets_of

WHERE = (("leader", 1), ("follower", 2), ("no replica", 3))
LATEST, EARLIEST = -1, -2


def _epochs(talk: ClusterConversation, topic: str) -> Iterator[tuple[str, int]]:
    now = talk.epoch(topic)
    yield from {"none": -1, "an old one": now - 1, "this one": now, "one to come": now + 1}.items()


def every_version_lists_offsets(talk: ClusterConversation) -> None:
    topic = talk.written_topic(1, 2)
    for version in (0, 1, 5):
        for name, broker in WHERE:
            talk.at(broker).ask(f"{name}, the end, version {version}", version, list_offsets_of(topic, LATEST))
    for name, broker in WHERE:
        talk.at(broker).ask(f"{name}, by time", 5, list_offsets_of(topic, T0_MS))
        talk.at(broker).ask(f"{name}, read committed", 5, list_offsets_of(topic, LATEST, isolation_level=1))
        talk.at(broker).ask(f"{name}, what is not there", 5, list_offsets_of(topic, LATEST, partition=4))


def offsets_for_replicas(talk: ClusterConversation) -> None:
    topic = talk.written_topic(1, 2)
    for who, replica_id in (("itself", 1), ("the follower", 2), ("broker 3", 3), ("nobody", NOBODY), ("debugger", -2)):
        for name, broker in WHERE:
            request = list_offsets_of(topic, LATEST, replica_id=replica_id)
            talk.at(broker).ask(f"{name}, asked by {who}", 5, request)


def epochs_with_offsets(talk: ClusterConversation) -> None:
    topic = talk.topic_led_twice()
    for name, epoch in _epochs(talk, topic):
        for where, broker in (("leader", 2), ("follower", 1), ("no replica", 3)):
            talk.at(broker).ask(f"{where}, {name}", 5, list_offsets_of(topic, LATEST, leader_epoch=epoch))


def every_version_finds_the_end_of_an_epoch(talk: ClusterConversation) -> None:
    topic = talk.topic_led_twice()
    for version in range(4):
        for where, broker in (("leader", 2), ("follower", 1), ("no replica", 3)):
            talk.at(broker).ask(f"{where}, version {version}", version, epoch_end(topic, 0))
    for replica_id in (-1, 1, 2, 3, NOBODY):
        for where, broker in (("leader", 2), ("follower", 1)):
            talk.at(broker).ask(f"{where}, replica {replica_id}", 3, epoch_end(topic, 0, replica_id=replica_id))


def epochs_with_the_end_of_an_epoch(talk: ClusterConversation) -> None:
    topic = talk.topic_led_twice()
    for name, epoch in _epochs(talk, topic):
        for where, broker in (("leader", 2), ("follower", 1), ("no replica", 3)):
            request = epoch_end(topic, 0, current_leader_epoch=epoch)
            talk.at(broker).ask(f"{where}, {name}", 3, request)
    talk.at(2).ask("of an epoch to come", 3, epoch_end(topic, talk.epoch(topic) + 1))
    talk.at(2).ask("of this epoch", 3, epoch_end(topic, talk.epoch(topic)))


def records_deleted_on_three_replicas(talk: ClusterConversation) -> None:
    topic = talk.written_topic(1, 2, 3)
    for version in range(3):
        talk.at(1).ask(f"version {version}", version, delete_before((topic, 0, version + 1)))
    for broker in BROKERS:
        talk.at(broker).ask(f"the first offset of broker {broker}", 5, list_offsets_of(topic, EARLIEST, replica_id=-2))
        talk.at(broker).ask(f"below it at broker {broker}", 11, fetch_from(topic))
    talk.at(1).ask("all", 2, delete_before((topic, 0, -1)))
    for broker in BROKERS:
        talk.at(broker).ask(f"all, broker {broker}", 5, list_offsets_of(topic, EARLIEST, replica_id=-2))
    talk.at(1).ask("what is gone already", 2, delete_before((topic, 0, 2)))


def records_deleted_elsewhere(talk: ClusterConversation) -> None:
    topic = talk.written_topic(1, 2)
    for name, broker in WHERE[1:]:
        talk.at(broker).ask(name, 2, delete_before((topic, 0, 2)))
    for name, broker in WHERE[1:]:
        talk.at(broker).ask(f"{name}, an offset that is not there", 2, delete_before((topic, 0, 99)))
        talk.at(broker).ask(f"{name}, a partition that is not there", 2, delete_before((topic, 7, 1)))
    talk.at(1).ask("the first offset", 5, list_offsets_of(topic, EARLIEST))
    talk.at(1).ask("one here and one elsewhere", 2, delete_before((topic, 0, 2), (talk.written_topic(2, 1), 0, 2)))


def records_deleted_where_a_replica_is_not_there(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, NOBODY], [NOBODY, NOBODY + 1])
    talk.at(1).write(topic, batch(b"a", b"b"), batch(b"c"))
    talk.at(1).ask("the others have it", 2, delete_before((topic, 0, 2)))
    talk.at(1).ask("nobody has it", 2, delete_before((topic, 1, 0)))


def where_nobody_lives(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2], [NOBODY, NOBODY + 1])
    for broker in (1, 3):
        talk.at(broker).ask(f"offsets, broker {broker}", 5, list_offsets_of(topic, LATEST, partition=1))
        talk.at(broker).ask(f"epoch, broker {broker}", 3, epoch_end(topic, 0, partition=1))
