"""DescribeLogDirs and AlterReplicaLogDirs of brokers that hold a replica, and of one that does not."""

from barnabas.protocol.messages import alter_replica_log_dirs, describe_log_dirs
from tests.differential.batches import batch
from tests.differential.cluster_conversation import BROKERS, NOBODY, ClusterConversation, await_that
from tests.differential.controller_requests import reassign

NOWHERE = "/nowhere/at/all"


def _described(topics: dict[str, list[int]] | None) -> describe_log_dirs.DescribeLogDirsRequest:
    if topics is None:
        return describe_log_dirs.DescribeLogDirsRequest(None)
    wanted = [describe_log_dirs.DescribableLogDirTopic(name, numbers) for name, numbers in topics.items()]
    return describe_log_dirs.DescribeLogDirsRequest(wanted)


def _moved(path: str, topics: dict[str, list[int]]) -> alter_replica_log_dirs.AlterReplicaLogDirsRequest:
    wanted = [alter_replica_log_dirs.AlterReplicaLogDirTopic(name, numbers) for name, numbers in topics.items()]
    return alter_replica_log_dirs.AlterReplicaLogDirsRequest([alter_replica_log_dirs.AlterReplicaLogDir(path, wanted)])


def _directory(talk: ClusterConversation, broker: int) -> str:
    path: str = talk.at(broker).prepare(1, _described({})).results[0].log_dir
    return path


def replicas_here_and_elsewhere(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2], [2, 3], [3, 2])
    talk.at(1).write(topic, batch(b"a", b"b"))
    talk.await_end(topic, 2, 1, 2)
    for broker in BROKERS:
        for version in range(3):
            request = _described({topic: [0, 1, 2, 7], "never-made": [0]})
            talk.at(broker).ask(f"broker {broker}, version {version}", version, request)
        talk.at(broker).ask(f"broker {broker}, everything", 2, _described(None))


def replicas_that_moved_away(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    talk.at(1).write(topic, batch(b"a", b"b"))
    talk.at_controller.prepare(0, reassign({topic: {0: [2, 3]}}))
    talk.await_replicas(topic, [2, 3])
    talk.await_end(topic, 2, 2, 3)
    for broker in (2, 3):
        talk.at(broker).ask(f"broker {broker}", 2, _described({topic: [0]}))
    asked = _described({topic: [0]})
    await_that(
        lambda: not any(one.partitions for one in talk.at(1).prepare(2, asked).results[0].topics),
        lambda: f"{topic} is still there",
    )
    talk.at(1).ask("the old one", 2, asked)


def to_where_it_is(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2])
    for broker in BROKERS:
        for version in range(2):
            request = _moved(_directory(talk, broker), {topic: [0]})
            talk.at(broker).ask(f"broker {broker}, version {version}", version, request)


def of_what_is_not_here(talk: ClusterConversation) -> None:
    topic = talk.new_topic([1, 2], [2, 3], [NOBODY, 2])
    for broker in (1, 3):
        path = _directory(talk, broker)
        for name, where in (("its directory", path), ("nowhere", NOWHERE)):
            request = _moved(where, {topic: [0, 1, 2, 7], "never-made": [0]})
            talk.at(broker).ask(f"broker {broker}, to {name}", 1, request)
    talk.at(3).ask("to the directory of another broker", 1, _moved(_directory(talk, 1), {topic: [0, 1]}))
