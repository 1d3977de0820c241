"""DescribeLogDirs: where replicas lie, and how large they are."""

from barnabas.protocol.messages import describe_log_dirs as messages
from tests.differential.batches import batch
from tests.differential.conversation import Conversation

VERSIONS = range(3)


def _asked(topics: dict[str, list[int]] | None) -> messages.DescribeLogDirsRequest:
    if topics is None:
        return messages.DescribeLogDirsRequest(None)
    return messages.DescribeLogDirsRequest(
        [messages.DescribableLogDirTopic(name, numbers) for name, numbers in topics.items()]
    )


def every_version(talk: Conversation) -> None:
    topic = talk.new_topic(2)
    talk.write(topic, batch(b"a", b"b"), batch(b"c"))
    for version in VERSIONS:
        talk.ask(f"one partition, version {version}", version, _asked({topic: [0]}))
        talk.ask(f"two partitions, version {version}", version, _asked({topic: [0, 1]}))
        talk.ask(f"everything, version {version}", version, _asked(None))


def what_is_not_there(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("another partition", 2, _asked({topic: [4]}))
    talk.ask("another topic", 2, _asked({"never-made": [0]}))
    talk.ask("no partition", 2, _asked({topic: []}))
    talk.ask("no topic", 2, _asked({}))
    talk.ask("one and another", 2, _asked({topic: [0, 9], "never-made": [0]}))
    talk.ask("one twice", 2, _asked({topic: [0, 0]}))


def a_topic_that_is_deleted(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, batch(b"a"))
    talk.delete_topic(topic)
    talk.ask("it is gone", 2, _asked({topic: [0]}))
    talk.ask("everything", 2, _asked(None))
