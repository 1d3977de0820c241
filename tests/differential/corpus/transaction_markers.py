"""WriteTxnMarkers as a coordinator sends it to the leaders of partitions."""

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.differential.conversation import Conversation
from tests.differential.requests import fetch_from

COMMIT, ABORT = True, False


def _marker(
    producer: tuple[int, int], topics: dict[str, list[int]], *, result: bool = COMMIT, coordinator_epoch: int = 0
) -> WritableTxnMarker:
    found = [WritableTxnMarkerTopic(name, partitions) for name, partitions in topics.items()]
    return WritableTxnMarker(*producer, result, found, coordinator_epoch)


def commits_and_aborts(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=2)
    for result in (COMMIT, ABORT):
        marker = _marker((700_000, 0), {topic: [0, 1]}, result=result)
        talk.ask(f"commit {result}", 0, WriteTxnMarkersRequest([marker]))
    talk.ask("fetched", 11, fetch_from(topic))


def a_version_that_is_newer_than_kafka(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("version 1", 1, WriteTxnMarkersRequest([_marker((705_000, 0), {topic: [0]})]))


def epochs(talk: Conversation) -> None:
    topic = talk.new_topic()

    def ask(name: str, epoch: int, coordinator_epoch: int) -> None:
        marker = _marker((710_000, epoch), {topic: [0]}, coordinator_epoch=coordinator_epoch)
        talk.ask(name, 0, WriteTxnMarkersRequest([marker]))

    ask("the first", 5, 3)
    ask("the same again", 5, 3)
    ask("an older epoch of the producer", 4, 3)
    ask("an older coordinator", 5, 2)
    ask("a newer coordinator", 5, 4)
    ask("the older coordinator again", 5, 3)
    ask("a newer epoch of the producer", 6, 4)


def partitions_that_there_are_not(talk: Conversation) -> None:
    topic = talk.new_topic()
    beside = _marker((720_000, 0), {topic: [0, 5], f"{topic}-no": [0]})
    talk.ask("beside one that there is", 0, WriteTxnMarkersRequest([beside]))
    alone = _marker((720_001, 0), {f"{topic}-no": [0]})
    talk.ask("alone", 0, WriteTxnMarkersRequest([alone]))


def nothing_to_mark(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask("no markers", 0, WriteTxnMarkersRequest([]))
    talk.ask("no topics", 0, WriteTxnMarkersRequest([_marker((730_000, 0), {})]))
    talk.ask("no partitions", 0, WriteTxnMarkersRequest([_marker((730_000, 0), {topic: []})]))


def many_producers(talk: Conversation) -> None:
    topic = talk.new_topic()
    markers = [_marker((740_000 + number, 0), {topic: [0]}, result=number % 2 == 0) for number in range(5)]
    talk.ask("five", 0, WriteTxnMarkersRequest(markers))
    talk.ask("fetched", 11, fetch_from(topic))


def requests_that_cannot_be_read(talk: Conversation) -> None:
    head = b"\x00\x1b\x00\x00\x00\x00\x00\x07\x00\x01x"
    for name, body in {"no body": b"", "cut": b"\x00\x00\x00\x01\x00\x00"}.items():
        talk.ask_bytes(name, head + body, api_key=ApiKey.WRITE_TXN_MARKERS, version=0, correlation_id=7)
