"""Histories as text: one JSON object a line, written as things happen, so that a client that is killed loses nothing.

A line opens an operation (`produce`, `poll`) under a number of its file, or ends one (`ok`, `fail`, `info` with that
number). An operation whose end is missing counts as unknown. `txn` lines tell how a transaction ended, `start` lines
which records may be deleted. Values are text when they are UTF-8, else Base64 under another key. A torn last line is
left out; any other line that does not make sense raises `BadHistoryLine`.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history import History, Outcome, Poll, Produce

Fields = dict[str, Any]


class BadHistoryLine(Exception):
    """A line that no writer of ours makes."""


@dataclass(slots=True)
class HistoryWriter:
    """Writes a client's operations line by line. `write` takes one line with its end; flushing is the caller's."""

    write: Callable[[str], object]
    count: int = 0
    numbers: dict[int, int] = field(default_factory=dict)

    def invoke(self, operation: Produce | Poll) -> None:
        """The operation was just made."""
        self.numbers[id(operation)] = self.count
        topic, partition = operation.topic_partition
        line: Fields = {"n": self.count, "client": operation.client, "topic": topic, "partition": partition}
        line |= {"at": operation.invoked_at}
        if isinstance(operation, Produce):
            line |= {"type": "produce", **_value_fields(operation.value)}
            line |= _unless(operation.acks, -1, "acks") | _unless(operation.idempotent, True, "idempotent")
            line |= _unless(operation.transaction, None, "txn")
        else:
            line |= {"type": "poll"} | _unless(operation.position, None, "position")
            line |= _unless(operation.session, 0, "session") | _unless(operation.final, False, "final")
            line |= _unless(operation.read_committed, False, "committed")
        self.count += 1
        self._line(line)

    def end(self, operation: Produce | Poll) -> None:
        """The operation was just closed."""
        line: Fields = {"n": self.numbers.pop(id(operation)), "type": str(operation.outcome)}
        line |= {"at": operation.completed_at} | _unless(operation.error, "", "error")
        if isinstance(operation, Produce):
            line |= _unless(operation.offset, None, "offset")
        else:
            line |= _unless(operation.high_watermark, None, "hw") | _unless(operation.leader_epoch, None, "epoch")
            line["records"] = [{"offset": offset, **_value_fields(value)} for offset, value in operation.records]
        self._line(line)

    def end_transaction(self, name: str, outcome: Outcome) -> None:
        """How a transaction ended."""
        self._line({"type": "txn", "name": name, "outcome": str(outcome)})

    def allow_deletion(self, topic_partition: TopicPartition, before_offset: int) -> None:
        """Records below this offset may go from now on."""
        topic, partition = topic_partition
        self._line({"type": "start", "topic": topic, "partition": partition, "offset": before_offset})

    def _line(self, fields: Fields) -> None:
        self.write(json.dumps(fields, separators=(",", ":")) + "\n")


def write_history(history: History, write: Callable[[str], object]) -> None:
    """A history that is complete, in the order of each client's invocations."""
    writer = HistoryWriter(write)
    both: tuple[list[Produce] | list[Poll], ...] = (*history.produces.values(), *history.polls.values())
    for some in both:
        for operation in some:
            writer.invoke(operation)
            if operation.completed_at is not None:
                writer.end(operation)
    for transaction in history.transactions.values():
        writer.end_transaction(transaction.name, transaction.outcome)
    for topic_partition, offset in history.start_offsets.items():
        writer.allow_deletion(topic_partition, offset)


def read_history(lines: Iterable[str], history: History | None = None) -> History:
    """The history in the lines of one file, added to `history` when it is given: once for each client's file."""
    history = History() if history is None else history
    running: dict[int, Produce | Poll] = {}
    torn: str | None = None
    for line in lines:
        if torn is not None:
            raise BadHistoryLine(torn)
        try:
            fields = json.loads(line)
        except ValueError:
            torn = line
            continue
        try:
            _take(fields, history, running)
        except (KeyError, TypeError, ValueError) as error:
            raise BadHistoryLine(line) from error
    if torn is not None and torn.endswith("\n"):
        raise BadHistoryLine(torn)
    return history


def _take(fields: Fields, history: History, running: dict[int, Produce | Poll]) -> None:
    match fields["type"]:
        case "produce" | "poll":
            operation = _operation(fields)
            running[fields["n"]] = operation
            history.add(operation)
        case "txn":
            history.end_transaction(fields["name"], Outcome(fields["outcome"]))
        case "start":
            history.allow_deletion(TopicPartition(fields["topic"], fields["partition"]), fields["offset"])
        case _:
            _end(fields, running.pop(fields["n"]))


def _operation(fields: Fields) -> Produce | Poll:
    client, invoked_at = str(fields["client"]), int(fields["at"])
    topic_partition = TopicPartition(fields["topic"], fields["partition"])
    if fields["type"] == "produce":
        return Produce(
            client,
            topic_partition,
            _value(fields),
            invoked_at,
            acks=fields.get("acks", -1),
            idempotent=fields.get("idempotent", True),
            transaction=fields.get("txn"),
        )
    return Poll(
        client,
        topic_partition,
        invoked_at,
        position=fields.get("position"),
        session=fields.get("session", 0),
        read_committed=fields.get("committed", False),
        final=fields.get("final", False),
    )


def _end(fields: Fields, operation: Produce | Poll) -> None:
    operation.outcome, operation.completed_at = Outcome(fields["type"]), fields["at"]
    operation.error = fields.get("error", "")
    if isinstance(operation, Produce):
        operation.offset = fields.get("offset")
    else:
        operation.high_watermark, operation.leader_epoch = fields.get("hw"), fields.get("epoch")
        operation.records = [(record["offset"], _value(record)) for record in fields["records"]]


def _unless(value: object, usual: object, name: str) -> Fields:
    return {} if value == usual else {name: value}


def _value_fields(value: bytes) -> Fields:
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def _value(fields: Fields) -> bytes:
    text = fields.get("value")
    return b64decode(fields["base64"], validate=True) if text is None else str(text).encode()
