"""AlterReplicaLogDirs: what is asked of a broker with one log directory."""

from barnabas.protocol.messages import alter_replica_log_dirs as messages
from barnabas.protocol.messages import describe_log_dirs
from tests.differential.batches import batch
from tests.differential.conversation import Conversation

VERSIONS = range(2)
NOWHERE = "/nowhere/at/all"


def _move(path: str, topics: dict[str, list[int]]) -> messages.AlterReplicaLogDirsRequest:
    wanted = [messages.AlterReplicaLogDirTopic(name, numbers) for name, numbers in topics.items()]
    return messages.AlterReplicaLogDirsRequest([messages.AlterReplicaLogDir(path, wanted)])


def _directory(talk: Conversation) -> str:
    answer = talk.ask("where", 1, describe_log_dirs.DescribeLogDirsRequest([]))
    path = answer.results[0].log_dir
    assert isinstance(path, str)
    return path


def to_where_it_is(talk: Conversation) -> None:
    topic = talk.new_topic(2)
    talk.write(topic, batch(b"a"))
    path = _directory(talk)
    for version in VERSIONS:
        talk.ask(f"version {version}", version, _move(path, {topic: [0, 1]}))
    talk.ask("nothing moves", 1, describe_log_dirs.DescribeLogDirsRequest(
        [describe_log_dirs.DescribableLogDirTopic(topic, [0, 1])]
    ))  # fmt: skip


def to_a_directory_that_is_none(talk: Conversation) -> None:
    topic = talk.new_topic()
    path = _directory(talk)
    for version in VERSIONS:
        talk.ask(f"version {version}", version, _move(NOWHERE, {topic: [0]}))
    talk.ask("empty", 1, _move("", {topic: [0]}))
    talk.ask("relative", 1, _move("logs", {topic: [0]}))
    talk.ask("written in another way", 1, _move(f"{path}/", {topic: [0]}))


def replicas_that_are_not_here(talk: Conversation) -> None:
    topic = talk.new_topic()
    path = _directory(talk)
    talk.ask("another partition", 1, _move(path, {topic: [5]}))
    talk.ask("another topic", 1, _move(path, {"never-made": [0]}))
    talk.ask("another topic to nowhere", 1, _move(NOWHERE, {"never-made": [0]}))
    talk.ask("an impossible name", 1, _move(path, {"a b": [0]}))
    talk.ask("partition -1", 1, _move(path, {topic: [-1]}))
    talk.ask("a name too long to move", 1, _move(path, {"t" * 245: [0]}))


def several_at_once(talk: Conversation) -> None:
    first, second = talk.new_topic(), talk.new_topic()
    path = _directory(talk)
    talk.ask("two topics", 1, _move(path, {first: [0], second: [0, 3]}))
    talk.ask("none", 1, messages.AlterReplicaLogDirsRequest([]))
    talk.ask("a directory without topics", 1, _move(path, {}))
    talk.ask("a topic without partitions", 1, _move(path, {first: []}))
    talk.ask("one to two directories", 1, messages.AlterReplicaLogDirsRequest(
        [*_move(path, {first: [0]}).dirs, *_move(NOWHERE, {first: [0]}).dirs]
    ))  # fmt: skip
    talk.ask("one to two directories, the other way", 1, messages.AlterReplicaLogDirsRequest(
        [*_move(NOWHERE, {first: [0]}).dirs, *_move(path, {first: [0]}).dirs]
    ))  # fmt: skip
