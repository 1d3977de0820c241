"""What is no request of a transaction's producer: ids, epochs, partitions and groups that cannot be."""

from barnabas.protocol.ids import ApiKey
from tests.differential.conversation import Conversation
from tests.differential.coordinator_requests import add_offsets, add_partitions, end, initialise

VERSIONS = range(3)
CONCURRENT_TRANSACTIONS = (51,)


def ids_that_are_not_known(talk: Conversation) -> None:
    topic = talk.new_topic()
    transactional_id = talk.new_transactional_id()
    for version in VERSIONS:
        talk.ask(f"partitions {version}", version, add_partitions(transactional_id, (5, 0), {topic: [0]}))
        talk.ask(f"offsets {version}", version, add_offsets(transactional_id, (5, 0), "group"))
        talk.ask(f"end {version}", version, end(transactional_id, (5, 0), commit=True))


def ids_without_a_name(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.new_transactional_id()
    for version in VERSIONS:
        talk.ask(f"partitions {version}", version, add_partitions("", (5, 0), {topic: [0]}))
        talk.ask(f"offsets {version}", version, add_offsets("", (5, 0), "group"))
        talk.ask(f"end {version}", version, end("", (5, 0), commit=True))


def producers_that_are_others(talk: Conversation) -> None:
    topic = talk.new_topic()
    transactional_id = talk.new_transactional_id()
    producer_id = talk.ask("the producer", 4, initialise(transactional_id)).producer_id
    for name, producer in {
        "another id": (1 << 40, 0),
        "no id": (-1, -1),
        "a coming epoch": (producer_id, 1),
        "an epoch that was never": (producer_id, -1),
    }.items():
        for version in VERSIONS:
            talk.ask(f"partitions {version}, {name}", version, add_partitions(transactional_id, producer, {topic: [0]}))
            talk.ask(f"offsets {version}, {name}", version, add_offsets(transactional_id, producer, "group"))
            talk.ask(f"end {version}, {name}", version, end(transactional_id, producer, commit=True))


def partitions_that_there_are_not(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=2)
    transactional_id = talk.new_transactional_id()
    producer = (talk.ask("the producer", 4, initialise(transactional_id)).producer_id, 0)
    for name, topics in {
        "beside ones that there are": {topic: [0, 1, 2, -1], f"{topic}-no": [0]},
        "alone": {f"{topic}-no": [0]},
        "of no name": {"": [0]},
    }.items():
        for version in VERSIONS:
            talk.ask(f"{name}, version {version}", version, add_partitions(transactional_id, producer, topics))
    talk.ask("an end: nothing was added", 1, end(transactional_id, producer, commit=True))


def nothing_to_add(talk: Conversation) -> None:
    topic = talk.new_topic()
    transactional_id = talk.new_transactional_id()
    producer = (talk.ask("the producer", 4, initialise(transactional_id)).producer_id, 0)
    talk.ask("no topics", 1, add_partitions(transactional_id, producer, {}))
    talk.ask("no partitions", 1, add_partitions(transactional_id, producer, {topic: []}))
    talk.ask("an end of that", 1, end(transactional_id, producer, commit=True))


def a_partition_named_twice(talk: Conversation) -> None:
    topic = talk.new_topic()
    transactional_id = talk.new_transactional_id()
    producer = (talk.ask("the producer", 4, initialise(transactional_id)).producer_id, 0)
    talk.ask("twice", 1, add_partitions(transactional_id, producer, {topic: [0, 0]}))
    request = end(transactional_id, producer, commit=True)
    talk.ask("the end", 1, request)
    talk.ask_until("the end again", 1, request, passing=CONCURRENT_TRANSACTIONS)


def internal_topics(talk: Conversation) -> None:
    talk.new_group()
    transactional_id = talk.new_transactional_id()
    producer = (talk.ask("the producer", 4, initialise(transactional_id)).producer_id, 0)
    topics = {"__consumer_offsets": [0], "__transaction_state": [0]}
    talk.ask("partitions of both", 1, add_partitions(transactional_id, producer, topics))
    talk.ask("the end", 1, end(transactional_id, producer, commit=False))


def groups_without_a_name(talk: Conversation) -> None:
    talk.new_group()
    transactional_id = talk.new_transactional_id()
    producer = (talk.ask("the producer", 4, initialise(transactional_id)).producer_id, 0)
    talk.ask("offsets of no group", 1, add_offsets(transactional_id, producer, ""))


def requests_that_cannot_be_read(talk: Conversation) -> None:
    keys = {
        "partitions": ApiKey.ADD_PARTITIONS_TO_TXN,
        "offsets": ApiKey.ADD_OFFSETS_TO_TXN,
        "end": ApiKey.END_TXN,
        "offsets' commit": ApiKey.TXN_OFFSET_COMMIT,
    }
    for name, key in keys.items():
        head = key.to_bytes(2) + b"\x00\x00\x00\x00\x00\x07\x00\x01x"
        for kind, body in {"no body": b"", "a null id": b"\xff\xff" + bytes(30), "cut": b"\x00\x01t\x00"}.items():
            talk.ask_bytes(f"{name}, {kind}", head + body, api_key=key, version=0, correlation_id=7)
