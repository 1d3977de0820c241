"""Histories for the checker's tests: a reference log with valid clients drawn at random, and one anomaly planted."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history import History, Outcome, Poll, Produce
from barnabas.simulation.history_check import AnomalyKind
from barnabas.simulation.history_values import Written, value_of

PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


@dataclass(slots=True)
class Reference:
    """A log that is well, and the clients that use it. Time is a counter."""

    random: Random
    topic_partition: TopicPartition = PARTITION
    history: History = field(default_factory=History)
    now: int = 0
    log: list[bytes | None] = field(default_factory=list)  # None: a control record, which no reader is given
    sequences: dict[str, int] = field(default_factory=dict)
    open_transaction: str | None = None
    late: list[Produce] = field(default_factory=list)

    def tick(self) -> int:
        self.now += 1
        return self.now

    def value(self, client: str) -> bytes:
        sequence = self.sequences[client] = self.sequences.get(client, -1) + 1
        return value_of(Written(self.topic_partition, client, 0, sequence), size_bytes=40)

    def run(self, steps: int) -> None:
        """Act at random, then read all to the end."""
        readers = [_Reader(f"reader-{number}") for number in range(2)]
        actions: list[Callable[[], None]] = [
            *[lambda: self.produce(f"producer-{self.random.randrange(3)}")] * 4,
            self.produce_in_transaction,
            *[lambda: self.read(self.random.choice(readers))] * 2,
            self.write_a_late_one,
        ]
        for _ in range(steps):
            self.random.choice(actions)()
        self.end_transaction()
        self.finish()

    def finish(self) -> None:
        """The final reads: everything, in a few answers."""
        reader = _Reader("final", is_final=True)
        while reader.position < len(self.log):
            self.read(reader)

    def produce(self, client: str) -> None:
        draw = self.random.random()
        operation = self.history.produce(client, self.topic_partition, self.value(client), self.tick())
        if draw < 0.75:
            operation.ok(self.append(operation.value), self.tick())
        elif draw < 0.85:
            operation.fail("NOT_ENOUGH_REPLICAS", self.tick())
        elif draw < 0.9:
            self.append(operation.value)  # Written, and nobody was told.
        elif draw < 0.95:
            operation.unknown("timed out", self.tick())
        else:
            # Its own producer, which sends no more: it may come at any time.
            operation.client += f"-late-{self.now}"
            self.late.append(operation)

    def produce_in_transaction(self) -> None:
        if self.open_transaction is None:
            self.open_transaction = f"transaction-{self.tick()}"
        value = self.value("transactional")
        name = self.open_transaction
        operation = self.history.produce("transactional", self.topic_partition, value, self.tick(), transaction=name)
        operation.ok(self.append(value), self.tick())
        if self.random.random() < 0.4:
            self.end_transaction()

    def end_transaction(self) -> None:
        if self.open_transaction is not None:
            outcome = self.random.choice([Outcome.OK, Outcome.FAIL])
            self.history.end_transaction(self.open_transaction, outcome)
            self.log.append(None)
            self.open_transaction = None

    def write_a_late_one(self) -> None:
        if self.late:
            self.append(self.late.pop().value)

    def append(self, value: bytes) -> int:
        self.log.append(value)
        return len(self.log) - 1

    def read(self, reader: "_Reader") -> None:
        if not reader.is_final and self.random.random() < 0.1:
            reader.session += 1
            reader.position = self.random.randint(0, len(self.log))
        knows = self.random.random() < 0.5 or reader.is_new
        end = min(len(self.log), reader.position + self.random.randint(0, 6))
        poll = self.history.poll(
            reader.name,
            self.topic_partition,
            self.tick(),
            position=reader.position if knows else None,
            session=reader.session,
            final=reader.is_final,
        )
        here = [(offset, self.log[offset]) for offset in range(reader.position, end)]
        told = {"high_watermark": len(self.log), "leader_epoch": 1} if self.random.random() < 0.5 else {}
        poll.ok([(offset, value) for offset, value in here if value is not None], self.tick(), **told)
        reader.position, reader.is_new = end, False


@dataclass(slots=True)
class _Reader:
    name: str
    is_final: bool = False
    position: int = 0
    session: int = 0
    is_new: bool = True


def a_valid_history(random: Random, *, steps: int = 40) -> History:
    reference = Reference(random)
    for client in ("reader-0", "producer-0", "producer-1"):  # So that each plant finds a place.
        if client.startswith("producer"):
            value = reference.value(client)
            operation = reference.history.produce(client, PARTITION, value, reference.tick())
            operation.ok(reference.append(value), reference.tick())
    reference.run(steps)
    other = Reference(random, OTHER, reference.history, reference.now)
    other.produce("elsewhere")
    other.finish()
    return reference.history


# Plants: each changes a valid history so that exactly what it is named after has happened.


def final_polls(history: History) -> list[Poll]:
    return [poll for poll in history.polls[PARTITION] if poll.final and poll.records]


def acknowledged(history: History) -> list[Produce]:
    return [one for one in history.produces[PARTITION] if one.outcome is Outcome.OK and one.transaction is None]


def forget(history: History, value: bytes) -> None:
    for poll in history.polls[PARTITION]:
        poll.records = [record for record in poll.records if record[1] != value]


def lose(history: History, random: Random) -> None:
    """A later record stays, so there must be two."""
    last = final_polls(history)[-1].records[-1][0]
    forget(history, random.choice([one for one in acknowledged(history) if one.offset != last]).value)


def end_too_soon(history: History, random: Random) -> None:
    newest = max(acknowledged(history), key=lambda one: one.offset or 0)
    for poll in final_polls(history):
        poll.records = [record for record in poll.records if record[0] < (newest.offset or 0)]


def repeat(history: History, random: Random) -> None:
    polls = final_polls(history)
    value = random.choice(random.choice(polls).records)[1]
    polls[-1].records.append((polls[-1].records[-1][0] + 5, value))


def put_two_at_one_offset(history: History, random: Random) -> None:
    one = random.choice(acknowledged(history))
    poll = history.poll("bystander", PARTITION, 0)
    lost = history.produce("bystander", PARTITION, b"another", 0)
    poll.ok([(one.offset or 0, lost.value)], 10**6)


def swap(history: History, random: Random) -> None:
    """Two records of one producer change places, in what it was told and in what was read."""
    of_producers: dict[str, list[Produce]] = {}
    for one in acknowledged(history):
        of_producers.setdefault(one.client, []).append(one)
    first, second = max(of_producers.values(), key=len)[:2]
    assert first.offset is not None
    assert second.offset is not None
    place = {first.value: second.offset, second.value: first.offset}
    first.offset, second.offset = second.offset, first.offset
    for poll in history.polls[PARTITION]:
        poll.records = sorted((place.get(value, offset), value) for offset, value in poll.records)


def change_a_byte(history: History, random: Random) -> None:
    poll = random.choice(final_polls(history))
    at = random.randrange(len(poll.records))
    offset, value = poll.records[at]
    changed = bytearray(value)
    changed[random.randrange(len(value))] ^= 1 << random.randrange(8)
    poll.records[at] = offset, bytes(changed)


def misplace(history: History, random: Random) -> None:
    polls = final_polls(history)
    stray = history.produces[OTHER][0].value
    polls[-1].records.append((polls[-1].records[-1][0] + 5, stray))


def read_a_failed_write(history: History, random: Random) -> None:
    one = random.choice(acknowledged(history))
    one.outcome, one.offset, one.error = Outcome.FAIL, None, "NOT_ENOUGH_REPLICAS"


def read_an_aborted_transaction(history: History, random: Random) -> None:
    one = random.choice(acknowledged(history))
    one.transaction = "doomed"
    history.end_transaction("doomed", Outcome.FAIL)
    for poll in final_polls(history):
        poll.read_committed = True


def go_back(history: History, random: Random) -> None:
    poll = random.choice(final_polls(history))
    poll.records.append(poll.records[0])


def leave_one_out(history: History, random: Random) -> None:
    value = random.choice(acknowledged(history))
    offset = value.offset or 0
    poll = history.poll("hasty", PARTITION, 0, position=offset)
    following = min(
        (record for one in final_polls(history) for record in one.records if record[0] > offset), default=None
    )
    if following is None:  # It is the last: leave out the one before.
        records = [record for one in final_polls(history) for record in one.records]
        poll.position, following = records[0][0], records[-1]
    poll.ok([following], 10**6)


def acknowledge_below(history: History, random: Random) -> None:
    """The second was sent when the first had been acknowledged, and is below it; they are two producers'."""
    one = next(one for one in acknowledged(history) if one.client == "producer-0")
    other = next(one for one in acknowledged(history) if one.client == "producer-1")
    early, late = sorted((one, other), key=lambda each: each.offset or 0)
    late.invoked_at, late.completed_at = -4, -3
    early.invoked_at, early.completed_at = -2, -1


def take_back_the_high_watermark(history: History, random: Random) -> None:
    for told, now in ((10**6, 10**6), (10**6 - 1, 10**6 + 2)):
        poll = history.poll("watcher", PARTITION, now)
        poll.ok([], now + 1, high_watermark=told, leader_epoch=77)


def read_above_the_high_watermark(history: History, random: Random) -> None:
    poll = random.choice(final_polls(history))
    poll.high_watermark = poll.records[-1][0]


PLANTS: dict[AnomalyKind, list[Callable[[History, Random], None]]] = {
    AnomalyKind.LOST: [lose],
    AnomalyKind.UNSEEN: [end_too_soon],
    AnomalyKind.INCONSISTENT_OFFSETS: [put_two_at_one_offset],
    AnomalyKind.DUPLICATE: [repeat],
    AnomalyKind.REORDERED: [swap],
    AnomalyKind.CHANGED: [change_a_byte, misplace],
    AnomalyKind.ABORTED_READ: [read_a_failed_write, read_an_aborted_transaction],
    AnomalyKind.NONMONOTONIC_POLL: [go_back],
    AnomalyKind.SKIPPING_POLL: [leave_one_out],
    AnomalyKind.ACKNOWLEDGEMENT_ORDER: [acknowledge_below],
    AnomalyKind.HIGH_WATERMARK_REGRESS: [take_back_the_high_watermark],
    AnomalyKind.ABOVE_HIGH_WATERMARK: [read_above_the_high_watermark],
}
