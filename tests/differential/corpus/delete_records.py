"""DeleteRecords: a log that starts later, and what is refused."""

from barnabas.protocol.messages import delete_records as messages
from tests.differential.batches import batch
from tests.differential.controller_requests import delete_before
from tests.differential.conversation import Conversation
from tests.differential.requests import fetch_from, fetch_partition, list_offsets_of

VERSIONS = range(3)


def _written(talk: Conversation, configs: dict[str, str] | None = None) -> str:
    topic = talk.new_topic(configs=configs)
    talk.write(topic, batch(b"a", b"b"), batch(b"c"), batch(b"d", b"e"))
    return topic


def every_version_moves_the_start(talk: Conversation) -> None:
    topic = _written(talk)
    for version in VERSIONS:
        talk.ask(f"version {version}", version, delete_before((topic, 0, version + 1)))
    talk.ask("the first offset", 5, list_offsets_of(topic, -2))
    talk.ask("below it", 11, fetch_from(topic, fetch_partition(2)))
    talk.ask("within a batch", 11, fetch_from(topic, fetch_partition(3)))


def the_high_watermark(talk: Conversation) -> None:
    topic = _written(talk)
    talk.ask("all", 2, delete_before((topic, 0, -1)))
    talk.ask("again", 2, delete_before((topic, 0, -1)))
    talk.ask("the first offset", 5, list_offsets_of(topic, -2))
    talk.ask("the next offset", 5, list_offsets_of(topic, -1))
    talk.ask("by time", 5, list_offsets_of(topic, 0))
    talk.write(topic, batch(b"f"))
    talk.ask("what came after", 11, fetch_from(topic, fetch_partition(5)))


def offsets_that_are_not_there(talk: Conversation) -> None:
    topic = _written(talk)
    for offset in (0, 6, 1_000, -2, -9, 2**63 - 1):
        talk.ask(f"offset {offset}", 2, delete_before((topic, 0, offset)))
    talk.ask("forward", 2, delete_before((topic, 0, 3)))
    talk.ask("back", 2, delete_before((topic, 0, 1)))
    talk.ask("the first offset", 5, list_offsets_of(topic, -2))


def an_empty_partition(talk: Conversation) -> None:
    topic = talk.new_topic()
    for offset in (0, 1, -1):
        talk.ask(f"offset {offset}", 2, delete_before((topic, 0, offset)))


def partitions_that_are_not_known(talk: Conversation) -> None:
    topic = _written(talk)
    for version in VERSIONS:
        talk.ask(f"topic, version {version}", version, delete_before(("never-made", 0, 1)))
        talk.ask(f"partition, version {version}", version, delete_before((topic, 7, 1)))
    talk.ask("partition -1", 2, delete_before((topic, -1, 1)))
    talk.ask("an impossible name", 2, delete_before(("a b", 0, 1)))
    talk.ask("beside one that is", 2, delete_before((topic, 0, 2), ("never-made", 0, 1), (topic, 7, 1)))


def several_at_once(talk: Conversation) -> None:
    first, second = _written(talk), _written(talk)
    talk.ask("two topics", 2, delete_before((first, 0, 2), (second, 0, 3)))
    talk.ask("one twice", 2, delete_before((first, 0, 3), (first, 0, 4)))
    talk.ask("one twice, the first too far", 2, delete_before((first, 0, 99), (first, 0, 5)))
    talk.ask("none", 2, delete_before())
    talk.ask(
        "a topic without partitions", 2, messages.DeleteRecordsRequest([messages.DeleteRecordsTopic(first)], 1_000)
    )


def timeouts(talk: Conversation) -> None:
    topic = _written(talk)
    for offset, timeout_ms in enumerate((0, -1, 1, 2**31 - 1)):
        talk.ask(f"timeout {timeout_ms}", 2, delete_before((topic, 0, offset + 1), timeout_ms=timeout_ms))
