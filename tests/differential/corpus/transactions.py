"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn as a producer sends them, and what consumers see of them."""

from tests.differential.batches import batch, sequenced
from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import add_offsets, add_partitions, end, initialise
from tests.differential.requests import fetch_from, fetch_partition, list_offsets_of, produce_to

VERSIONS = range(3)
LATEST = -1
READ_COMMITTED = 1
CONCURRENT_TRANSACTIONS = (51,)

Producer = tuple[int, int]


def _begin(talk: Conversation, transactional_id: str) -> Producer:
    answer = talk.ask("the producer begins", 4, initialise(transactional_id))
    return answer.producer_id, answer.producer_epoch


def _produce(
    talk: Conversation, name: str, topic: str, transactional_id: str, producer: Producer, *, sequence: int
) -> None:
    producer_id, epoch = producer
    records = sequenced(producer_id, sequence, 2, epoch=epoch, transactional=True)
    talk.ask(name, 7, produce_to(7, topic, records, transactional_id=transactional_id))


def _end(talk: Conversation, name: str, transactional_id: str, producer: Producer, *, commit: bool) -> None:
    request = end(transactional_id, producer, commit=commit)
    talk.ask(name, 1, request)
    talk.ask_until(f"{name}, again when it is complete", 1, request, passing=CONCURRENT_TRANSACTIONS)


def every_version(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=3)
    for version in VERSIONS:
        transactional_id = talk.new_transactional_id()
        first = talk.ask(f"the producer of {version}", 4, initialise(transactional_id))
        producer = (first.producer_id, 0)
        group_id = talk.new_group()
        talk.ask(f"partitions {version}", version, add_partitions(transactional_id, producer, {topic: [0, 1]}))
        talk.ask(f"partitions {version} again", version, add_partitions(transactional_id, producer, {topic: [1, 2]}))
        talk.ask(f"offsets {version}", version, add_offsets(transactional_id, producer, group_id))
        talk.ask(f"offsets {version} again", version, add_offsets(transactional_id, producer, group_id))
        request = end(transactional_id, producer, commit=version != 1)
        talk.ask(f"end {version}", version, request)
        talk.ask_until(f"end {version} again", version, request, passing=CONCURRENT_TRANSACTIONS)


def consumers_see_what_is_committed(talk: Conversation) -> None:
    topic = talk.new_topic()
    transactional_id = talk.new_transactional_id()
    producer = _begin(talk, transactional_id)
    for number, commit in enumerate((True, False, True)):
        said = f"transaction {number}"
        talk.ask(f"{said} has a partition", 1, add_partitions(transactional_id, producer, {topic: [0]}))
        _produce(talk, f"{said} is written", topic, transactional_id, producer, sequence=2 * number)
        talk.ask(f"{said}, latest while it is open", 5, list_offsets_of(topic, LATEST, isolation_level=READ_COMMITTED))
        talk.ask(f"{said}, fetched while it is open", 11, fetch_from(topic, isolation_level=READ_COMMITTED))
        _end(talk, f"{said} ends", transactional_id, producer, commit=commit)
    for version in (4, 7, 11):
        request = fetch_from(topic, isolation_level=READ_COMMITTED)
        talk.ask(f"fetched as committed, version {version}", version, request)
        talk.ask(f"fetched as it is, version {version}", version, fetch_from(topic))
    for offset in (2, 3, 4, 6):
        request = fetch_from(topic, fetch_partition(offset), isolation_level=READ_COMMITTED)
        talk.ask(f"fetched as committed from {offset}", 11, request)
    talk.ask("latest of what is committed", 5, list_offsets_of(topic, LATEST, isolation_level=READ_COMMITTED))
    talk.ask("latest", 5, list_offsets_of(topic, LATEST))


def plain_batches_wait_behind_an_open_transaction(talk: Conversation) -> None:
    topic = talk.new_topic()
    transactional_id = talk.new_transactional_id()
    producer = _begin(talk, transactional_id)
    talk.ask("a plain batch before", 7, produce_to(7, topic, batch(b"a")))
    talk.ask("a partition", 1, add_partitions(transactional_id, producer, {topic: [0]}))
    _produce(talk, "a batch of the transaction", topic, transactional_id, producer, sequence=0)
    talk.ask("a plain batch behind", 7, produce_to(7, topic, batch(b"b")))
    talk.ask("fetched as committed", 11, fetch_from(topic, isolation_level=READ_COMMITTED))
    behind = fetch_from(topic, fetch_partition(3), isolation_level=READ_COMMITTED)
    talk.ask("fetched as committed from behind", 11, behind)
    _end(talk, "the end", transactional_id, producer, commit=True)
    talk.ask("fetched as committed after the end", 11, fetch_from(topic, isolation_level=READ_COMMITTED))


def a_producer_writes_nothing(talk: Conversation) -> None:
    topic = talk.new_topic()
    transactional_id = talk.new_transactional_id()
    producer = _begin(talk, transactional_id)
    talk.ask("a partition", 1, add_partitions(transactional_id, producer, {topic: [0]}))
    _end(talk, "the end", transactional_id, producer, commit=True)
    talk.ask("fetched", 11, fetch_from(topic, isolation_level=READ_COMMITTED))


def ends_without_a_beginning(talk: Conversation) -> None:
    transactional_id = talk.new_transactional_id()
    producer = _begin(talk, transactional_id)
    for version in VERSIONS:
        for commit in (True, False):
            request = end(transactional_id, producer, commit=commit)
            talk.ask(f"version {version}, commit {commit}", version, request)


def the_other_end_after_the_end(talk: Conversation) -> None:
    topic = talk.new_topic()
    for commit in (True, False):
        transactional_id = talk.new_transactional_id()
        answer = talk.ask(f"the producer of {commit}", 4, initialise(transactional_id))
        producer = (answer.producer_id, 0)
        talk.ask(f"a partition of {commit}", 1, add_partitions(transactional_id, producer, {topic: [0]}))
        _end(talk, f"the end of {commit}", transactional_id, producer, commit=commit)
        other = end(transactional_id, producer, commit=not commit)
        talk.ask(f"the other end of {commit}", 1, other)


def an_id_is_used_by_the_next_producer(talk: Conversation) -> None:
    topic = talk.new_topic()
    transactional_id = talk.new_transactional_id()
    producer = _begin(talk, transactional_id)
    talk.ask("a partition", 1, add_partitions(transactional_id, producer, {topic: [0]}))
    _produce(talk, "a batch", topic, transactional_id, producer, sequence=0)
    second = talk.ask_until("the next producer", 4, initialise(transactional_id), passing=CONCURRENT_TRANSACTIONS)
    _produce(talk, "a batch of the old one", topic, transactional_id, producer, sequence=2)
    next_producer = (second.producer_id, second.producer_epoch)
    talk.ask("a partition of the next", 1, add_partitions(transactional_id, next_producer, {topic: [0]}))
    _produce(talk, "a batch of the next", topic, transactional_id, next_producer, sequence=0)
    _end(talk, "the end of the next", transactional_id, next_producer, commit=True)
    talk.ask("fetched", 11, fetch_from(topic, isolation_level=READ_COMMITTED))


def batches_that_do_not_fit_the_transaction(talk: Conversation) -> None:
    topic = talk.new_topic()
    transactional_id = talk.new_transactional_id()
    producer = _begin(talk, transactional_id)
    producer_id, epoch = producer
    talk.ask("a partition", 1, add_partitions(transactional_id, producer, {topic: [0]}))
    _produce(talk, "a batch", topic, transactional_id, producer, sequence=0)
    plain = sequenced(producer_id, 2, epoch=epoch)
    talk.ask("a batch outside of it", 7, produce_to(7, topic, plain, transactional_id=transactional_id))
    _produce(talk, "a gap", topic, transactional_id, producer, sequence=9)
    _produce(talk, "the first batch again", topic, transactional_id, producer, sequence=0)
    _produce(talk, "an epoch that is coming", topic, transactional_id, (producer_id, epoch + 1), sequence=5)
    _end(talk, "the end", transactional_id, producer, commit=False)
