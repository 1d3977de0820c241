"""Fetch: what is read, in every version, and how the limits of bytes and time shape it."""

from tests.differential.batches import COMPRESSED_RECORDS, batch, compressed_batch, sequenced
from tests.differential.conversation import Conversation
from tests.differential.requests import TOPIC, describe, fetch_from, fetch_partition, fetch_topics, produce_to

VERSIONS = range(13)
BATCH_VERSIONS = range(4, 13)


def _five_batches(talk: Conversation, partitions: int = 1) -> str:
    """A topic whose partition 0 holds ten records in five batches of 79 bytes."""
    topic = talk.new_topic(partitions=partitions)
    talk.write(topic, *[batch(b"a%d" % number, b"b%d" % number) for number in range(5)])
    return topic


def every_version_reads_from_the_start(talk: Conversation) -> None:
    topic = _five_batches(talk)
    for version in VERSIONS:
        talk.ask(f"version {version}", version, fetch_from(topic))


def every_version_reads_an_empty_partition(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        talk.ask(f"version {version}", version, fetch_from(topic))


def an_offset_within_a_batch_gives_the_whole_batch(talk: Conversation) -> None:
    topic = _five_batches(talk)
    for offset in (1, 2, 3, 9):
        talk.ask(f"offset {offset}", 11, fetch_from(topic, fetch_partition(offset)))


def the_end_of_the_log_is_empty(talk: Conversation) -> None:
    topic = _five_batches(talk)
    for version in (0, 4, 5, 11, 12):
        talk.ask(f"version {version}", version, fetch_from(topic, fetch_partition(10)))


def offsets_that_are_out_of_range(talk: Conversation) -> None:
    topic = _five_batches(talk)
    for offset in (11, -1, -2, (1 << 63) - 1):
        talk.ask(f"offset {offset}", 11, fetch_from(topic, fetch_partition(offset)))
    for version in VERSIONS:
        talk.ask(f"version {version}", version, fetch_from(topic, fetch_partition(99)))


def unknown_topics_and_partitions(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in VERSIONS:
        talk.ask(f"topic, version {version}", version, fetch_from("never-made"))
    for partition in (1, -1, 2_147_483_647):
        talk.ask(f"partition {partition}", 11, fetch_from(topic, fetch_partition(partition=partition)))
    for name in ("", "a b", "x" * 250):
        talk.ask(f"a topic called {name[:5]!r}", 11, fetch_from(name))


def a_partitions_limit_of_bytes(talk: Conversation) -> None:
    topic = _five_batches(talk)
    for max_bytes in (0, 1, 78, 79, 80, 100, 157, 158, 159, 394, 395, 396, -1):
        talk.ask(f"{max_bytes} bytes", 11, fetch_from(topic, fetch_partition(max_bytes=max_bytes)))
    for version in (4, 5, 12):
        talk.ask(f"100 bytes, version {version}", version, fetch_from(topic, fetch_partition(max_bytes=100)))


def the_whole_answers_limit_of_bytes(talk: Conversation) -> None:
    topic = _five_batches(talk)
    for max_bytes in (0, 1, 78, 79, 100, 158, 200, -1):
        talk.ask(f"{max_bytes} bytes", 11, fetch_from(topic, max_bytes=max_bytes))
    talk.ask("version 4", 4, fetch_from(topic, max_bytes=100))


def the_first_partitions_come_first_when_bytes_are_short(talk: Conversation) -> None:
    topic = _five_batches(talk, partitions=3)
    talk.write(topic, batch(b"second"), partition=1)
    talk.write(topic, batch(b"third"), partition=2)
    three = [fetch_partition(partition=number) for number in range(3)]
    for max_bytes in (1, 79, 395, 400, 468, 469, 600):
        talk.ask(f"in order, {max_bytes} bytes", 11, fetch_from(topic, *three, max_bytes=max_bytes))
        talk.ask(f"reversed, {max_bytes} bytes", 11, fetch_from(topic, *reversed(three), max_bytes=max_bytes))


def an_empty_partition_before_one_that_is_not(talk: Conversation) -> None:
    topic = _five_batches(talk, partitions=2)
    empty, full = fetch_partition(partition=1), fetch_partition()
    talk.ask("one byte", 11, fetch_from(topic, empty, full, max_bytes=1))
    talk.ask(
        "one byte in each",
        11,
        fetch_from(topic, fetch_partition(partition=1, max_bytes=1), fetch_partition(max_bytes=1)),
    )


def an_error_does_not_keep_other_partitions_from_answering(talk: Conversation) -> None:
    topic = _five_batches(talk)
    partitions = [fetch_partition(partition=9), fetch_partition(99), fetch_partition()]
    talk.ask("unknown first", 11, fetch_from(topic, partitions[0], partitions[2]))
    wanted = {"never-made": [fetch_partition()], topic: [fetch_partition()]}
    talk.ask("an unknown topic first", 11, fetch_topics(wanted))
    talk.ask("min_bytes waits all the same", 11, fetch_topics(wanted, max_wait_ms=100, min_bytes=1_000_000))
    out_of_range = fetch_from(topic, partitions[1], max_wait_ms=10_000, min_bytes=1_000_000)
    talk.ask("min_bytes does not wait when an offset is out of range", 11, out_of_range)


def several_topics(talk: Conversation) -> None:
    first, second = _five_batches(talk), _five_batches(talk)
    talk.ask("both", 11, fetch_topics({first: [fetch_partition(8)], second: [fetch_partition(6)]}))
    talk.ask("none", 11, fetch_topics({}))
    talk.ask("one without partitions", 11, fetch_topics({first: []}))


def too_few_bytes_wait_for_the_time_given(talk: Conversation) -> None:
    topic = _five_batches(talk)
    for version in (0, 4, 11):
        request = fetch_from(topic, max_wait_ms=100, min_bytes=1_000_000)
        talk.ask(f"version {version}", version, request)
    talk.ask("at the end", 11, fetch_from(topic, fetch_partition(10), max_wait_ms=100, min_bytes=1))
    talk.ask("negative", 11, fetch_from(topic, fetch_partition(10), max_wait_ms=-1, min_bytes=1))
    talk.ask("enough", 11, fetch_from(topic, max_wait_ms=10_000, min_bytes=395))
    talk.ask("zero bytes are enough", 11, fetch_from(topic, fetch_partition(10), max_wait_ms=10_000, min_bytes=0))
    talk.ask("negative bytes are enough", 11, fetch_from(topic, fetch_partition(10), max_wait_ms=10_000, min_bytes=-1))


def an_append_ends_the_wait(talk: Conversation) -> None:
    topic = talk.new_topic()
    for version in (4, 7, 12):
        offset = (4, 7, 12).index(version)
        request = fetch_from(topic, fetch_partition(offset), max_wait_ms=10_000, min_bytes=1)
        waiting = talk.send(f"version {version}", version, request, apart=True)
        talk.note(f"version {version} waits", talk.is_waiting(waiting))
        talk.ask(f"the append that version {version} waits for", 7, produce_to(7, topic, batch(b"x")))
        talk.receive(waiting)


def the_wait_is_for_all_partitions_together(talk: Conversation) -> None:
    topic = talk.new_topic(partitions=2)
    both = [fetch_partition(), fetch_partition(partition=1)]
    request = fetch_from(topic, *both, max_wait_ms=10_000, min_bytes=100)
    waiting = talk.send("both", 11, request, apart=True)
    talk.write(topic, batch(b"first"))
    talk.note("one batch is too little", talk.is_waiting(waiting))
    talk.write(topic, batch(b"second"), partition=1)
    talk.receive(waiting)


def a_request_behind_a_waiting_one_waits_too(talk: Conversation) -> None:
    topic = talk.new_topic()
    waiting = talk.send("waits", 11, fetch_from(topic, max_wait_ms=300, min_bytes=1))
    behind = talk.send("behind it", 1, describe((TOPIC, topic, ["cleanup.policy"])))
    talk.receive(waiting)
    talk.receive(behind)


def read_committed_sees_what_no_transaction_holds_back(talk: Conversation) -> None:
    topic = _five_batches(talk)
    for version in BATCH_VERSIONS:
        talk.ask(f"version {version}", version, fetch_from(topic, fetch_partition(8), isolation_level=1))
    talk.ask("isolation level 2", 11, fetch_from(topic, fetch_partition(8), isolation_level=2))
    talk.ask("isolation level -1", 11, fetch_from(topic, fetch_partition(8), isolation_level=-1))


def compressed_batches_come_as_they_were_sent(talk: Conversation) -> None:
    for codec in COMPRESSED_RECORDS:
        topic = talk.new_topic()
        talk.ask(f"{codec.name}, written", 7, produce_to(7, topic, compressed_batch(codec)))
        for version in (4, 9, 10, 12):
            talk.ask(f"{codec.name}, version {version}", version, fetch_from(topic))


def a_topic_configured_for_zstd(talk: Conversation) -> None:
    topic = talk.new_topic(configs={"compression.type": "zstd"})
    for version in (0, 4, 9, 10, 12):
        talk.ask(f"version {version}, empty", version, fetch_from(topic))


def producer_ids_and_sequences_are_kept(talk: Conversation) -> None:
    topic = talk.new_topic()
    talk.write(topic, sequenced(700_001, 5, 2, epoch=3))
    talk.ask("version 11", 11, fetch_from(topic))


def a_rack_changes_nothing_without_a_selector(talk: Conversation) -> None:
    topic = _five_batches(talk)
    for version in (11, 12):
        talk.ask(f"version {version}", version, fetch_from(topic, fetch_partition(8), rack_id="r1"))
