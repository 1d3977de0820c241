"""InitProducerId with a transactional id: new ones, known ones, and who fences whom (KIP-360)."""

from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import add_partitions, end, initialise

VERSIONS = range(5)
CONCURRENT_TRANSACTIONS = (51,)


def a_new_id_and_the_same_again(talk: Conversation) -> None:
    for version in VERSIONS:
        transactional_id = talk.new_transactional_id()
        talk.ask(f"first, version {version}", version, initialise(transactional_id))
        talk.ask(f"second, version {version}", version, initialise(transactional_id))


def timeouts(talk: Conversation) -> None:
    for timeout_ms in (1, 900_000, 900_001, 0, -1, (1 << 31) - 1):
        for version in (0, 4):
            request = initialise(talk.new_transactional_id(), timeout_ms)
            talk.ask(f"{timeout_ms} ms, version {version}", version, request)


def names_of_any_kind(talk: Conversation) -> None:
    talk.new_transactional_id()
    for name, transactional_id in {"words": "caf\u00e9", "long": "t" * 10_000, "spaces": " "}.items():
        talk.ask(name, 4, initialise(transactional_id))
    talk.ask("empty", 4, initialise(""))


def who_tells_its_id_and_epoch(talk: Conversation) -> None:
    transactional_id = talk.new_transactional_id()
    first = talk.ask("first", 4, initialise(transactional_id))
    producer_id = first.producer_id
    second = talk.ask("with what it got", 4, initialise(transactional_id, 60_000, producer_id, 0))
    talk.note("the same id", second.producer_id == producer_id)
    talk.ask("the same request again", 4, initialise(transactional_id, 60_000, producer_id, 0))
    talk.ask("with the epoch of now", 3, initialise(transactional_id, 60_000, producer_id, 1))
    for version in (3, 4):
        talk.ask(f"with an old epoch, {version}", version, initialise(transactional_id, 60_000, producer_id, 0))
        talk.ask(f"with a coming epoch, {version}", version, initialise(transactional_id, 60_000, producer_id, 9))
        talk.ask(f"with another id, {version}", version, initialise(transactional_id, 60_000, 1 << 40, 2))
    talk.ask("with an id and no epoch", 4, initialise(transactional_id, 60_000, producer_id, -1))
    talk.ask("with an epoch and no id", 4, initialise(transactional_id, 60_000, -1, 2))
    talk.ask("without both", 4, initialise(transactional_id))


def who_tells_an_id_that_is_not_known(talk: Conversation) -> None:
    for version in (3, 4):
        request = initialise(talk.new_transactional_id(), 60_000, 1 << 40, 5)
        talk.ask(f"version {version}", version, request)


def an_open_transaction_is_aborted(talk: Conversation) -> None:
    topic = talk.new_topic()
    transactional_id = talk.new_transactional_id()
    first = talk.ask("first", 4, initialise(transactional_id))
    producer = (first.producer_id, 0)
    talk.ask("a partition", 1, add_partitions(transactional_id, producer, {topic: [0]}))
    talk.ask_until("a second producer", 4, initialise(transactional_id), passing=CONCURRENT_TRANSACTIONS)
    for version in (0, 1, 2):
        talk.ask(f"the first adds, {version}", version, add_partitions(transactional_id, producer, {topic: [0]}))
        talk.ask(f"the first commits, {version}", version, end(transactional_id, producer, commit=True))
        talk.ask(f"the first aborts, {version}", version, end(transactional_id, producer, commit=False))
    talk.ask("the first begins again", 4, initialise(transactional_id, 60_000, *producer))
    talk.ask("the first begins again, version 3", 3, initialise(transactional_id, 60_000, *producer))


def an_open_transaction_of_who_tells_its_epoch(talk: Conversation) -> None:
    topic = talk.new_topic()
    transactional_id = talk.new_transactional_id()
    first = talk.ask("first", 4, initialise(transactional_id))
    producer = (first.producer_id, 0)
    talk.ask("a partition", 1, add_partitions(transactional_id, producer, {topic: [0]}))
    again = initialise(transactional_id, 60_000, *producer)
    talk.ask_until("it begins again", 4, again, passing=CONCURRENT_TRANSACTIONS)
