"""Produce: the sequences of idempotent producers."""

from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.differential.batches import batch, forged, sequenced
from tests.differential.conversation import Conversation
from tests.differential.requests import fetch_from, list_offsets_of, produce_to

LAST_SEQUENCE = 0x7FFFFFFF


def _send(talk: Conversation, topic: str, name: str, records: bytes, *, version: int = 8, acks: int = -1) -> None:
    talk.ask(name, version, produce_to(version, topic, records, acks=acks))


def _given(talk: Conversation) -> int:
    """A producer id that the server gave out."""
    producer_id: int = talk.ask("a producer id", 1, InitProducerIdRequest(None, 60_000)).producer_id
    return producer_id


def batches_in_sequence(talk: Conversation) -> None:
    topic, producer = talk.new_topic(), _given(talk)
    _send(talk, topic, "first", sequenced(producer, 0, 3))
    _send(talk, topic, "second", sequenced(producer, 3, 2))
    _send(talk, topic, "third, version 3", sequenced(producer, 5, 1), version=3)
    talk.ask("what was written", 11, fetch_from(topic))


def a_duplicate_is_answered_with_the_original_place(talk: Conversation) -> None:
    topic, producer = talk.new_topic(), _given(talk)
    _send(talk, topic, "first", sequenced(producer, 0, 3))
    _send(talk, topic, "second", sequenced(producer, 3, 2))
    _send(talk, topic, "second again", sequenced(producer, 3, 2))
    _send(talk, topic, "first again", sequenced(producer, 0, 3))
    for version in (3, 5, 7):
        _send(talk, topic, f"second again, version {version}", sequenced(producer, 3, 2), version=version)
    _send(talk, topic, "second again, acks 1", sequenced(producer, 3, 2), acks=1)
    _send(talk, topic, "third", sequenced(producer, 5, 1))
    talk.ask("the end of the log", 5, list_offsets_of(topic, -1))


def five_batches_are_remembered(talk: Conversation) -> None:
    topic, producer = talk.new_topic(), _given(talk)
    for number in range(6):
        _send(talk, topic, f"number {number}", sequenced(producer, number))
    for number in range(6):
        _send(talk, topic, f"number {number} again", sequenced(producer, number))
    talk.ask("the end of the log", 5, list_offsets_of(topic, -1))


def a_duplicate_with_other_content_counts_as_one(talk: Conversation) -> None:
    topic, producer = talk.new_topic(), _given(talk)
    _send(talk, topic, "first", sequenced(producer, 0, 2))
    _send(talk, topic, "first with another value", sequenced(producer, 0, 2, value=b"other"))
    _send(talk, topic, "only half of it", sequenced(producer, 0, 1))
    _send(talk, topic, "more than it", sequenced(producer, 0, 3))
    _send(talk, topic, "its second half", sequenced(producer, 1, 1))


def gaps_are_refused(talk: Conversation) -> None:
    topic, producer = talk.new_topic(), _given(talk)
    _send(talk, topic, "first", sequenced(producer, 0, 2))
    for version in (3, 7, 8):
        _send(talk, topic, f"a gap of one, version {version}", sequenced(producer, 3), version=version)
    _send(talk, topic, "a step back", sequenced(producer, 1))
    _send(talk, topic, "the right one", sequenced(producer, 2))
    _send(talk, topic, "back to zero", sequenced(producer, 0))


def a_producer_that_is_not_known_may_start_anywhere(talk: Conversation) -> None:
    topic = talk.new_topic()
    _send(talk, topic, "at zero", sequenced(800_001, 0))
    _send(talk, topic, "at five", sequenced(800_002, 5))
    _send(talk, topic, "at five, and goes on", sequenced(800_002, 6))
    _send(talk, topic, "at five, and does not go on", sequenced(800_002, 8))
    _send(talk, topic, "with epoch 7", sequenced(800_003, 0, epoch=7))


def sequences_wrap_to_zero(talk: Conversation) -> None:
    topic = talk.new_topic()
    _send(talk, topic, "the last one", sequenced(800_010, LAST_SEQUENCE))
    _send(talk, topic, "zero", sequenced(800_010, 0))
    _send(talk, topic, "across the end", sequenced(800_011, LAST_SEQUENCE - 1, 4))
    _send(talk, topic, "behind the end", sequenced(800_011, 2))
    _send(talk, topic, "across the end again", sequenced(800_011, LAST_SEQUENCE - 1, 4))


def a_newer_epoch_starts_at_zero(talk: Conversation) -> None:
    topic, producer = talk.new_topic(), _given(talk)
    _send(talk, topic, "epoch 0", sequenced(producer, 0, 2))
    _send(talk, topic, "epoch 1 at two", sequenced(producer, 2, epoch=1))
    _send(talk, topic, "epoch 1 at zero", sequenced(producer, 0, epoch=1))
    _send(talk, topic, "epoch 3 at zero", sequenced(producer, 0, epoch=3))
    _send(talk, topic, "epoch 3 goes on", sequenced(producer, 1, epoch=3))


def an_older_epoch_is_refused(talk: Conversation) -> None:
    topic = talk.new_topic()
    _send(talk, topic, "epoch 5", sequenced(800_020, 0, epoch=5))
    for version in (3, 7, 8):
        _send(talk, topic, f"epoch 4, version {version}", sequenced(800_020, 1, epoch=4), version=version)
    _send(talk, topic, "epoch 4 at zero", sequenced(800_020, 0, epoch=4))
    _send(talk, topic, "epoch 5 goes on", sequenced(800_020, 1, epoch=5))


def partitions_have_sequences_of_their_own(talk: Conversation) -> None:
    topic, producer = talk.new_topic(partitions=2), _given(talk)
    for partition in (0, 1):
        request = produce_to(8, topic, sequenced(producer, 0), partition=partition)
        talk.ask(f"partition {partition} at zero", 8, request)
    request = produce_to(8, topic, sequenced(producer, 2), partition=1)
    talk.ask("partition 1 at two", 8, request)


def producers_have_sequences_of_their_own(talk: Conversation) -> None:
    topic, first, second = talk.new_topic(), 800_030, 800_031
    _send(talk, topic, "one", sequenced(first, 0))
    _send(talk, topic, "the other", sequenced(second, 0))
    _send(talk, topic, "one goes on", sequenced(first, 1))
    _send(talk, topic, "without a producer id", batch(b"plain"))
    _send(talk, topic, "the other goes on", sequenced(second, 1))


def ids_without_sequences_and_the_reverse(talk: Conversation) -> None:
    topic = talk.new_topic()
    good = sequenced(800_040, 0)
    _send(talk, topic, "an id and no sequence", forged(good, base_sequence=-1))
    _send(talk, topic, "an id and sequence -2", forged(good, base_sequence=-2))
    _send(talk, topic, "an id and no epoch", forged(good, producer_epoch=-1))
    _send(talk, topic, "a sequence and no id", forged(good, producer_id=-1))
    _send(talk, topic, "an id of -2", forged(good, producer_id=-2))
    _send(talk, topic, "the greatest id and epoch", forged(good, producer_id=(1 << 63) - 1, producer_epoch=32767))


def a_refused_batch_takes_no_sequence(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"max.message.bytes": "150"})
    _send(talk, topic, "first", sequenced(800_050, 0))
    _send(talk, topic, "too large", sequenced(800_050, 1, value=b"x" * 200))
    _send(talk, topic, "the same sequence, smaller", sequenced(800_050, 1))


def what_is_written_without_acknowledgement_counts(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.ask_without_answer("first", 7, produce_to(7, topic, sequenced(800_060, 0), acks=0))
    talk.ask_without_answer("first again", 7, produce_to(7, topic, sequenced(800_060, 0), acks=0))
    talk.ask_without_answer("a gap", 7, produce_to(7, topic, sequenced(800_060, 5), acks=0))
    _send(talk, topic, "second", sequenced(800_060, 1))
