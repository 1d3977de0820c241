"""The file in which one load client writes down what it does, as it does it.

One event a line, fields apart by blanks, times in microseconds of the machine's monotonic clock, so that the files of
several programs make one history. A value is in the short form of `history_values`; one that is not whole is given in
full, in hexadecimal.

    client NAME
    i TIME VALUE                                    a record is sent
    k TIME PARTITION SEQUENCE OFFSET                it was acknowledged; without an offset it is not known where
    u TIME PARTITION SEQUENCE ERROR                 it was given up; it may be there
    f TIME PARTITION SEQUENCE ERROR                 it was refused; it is not there
    p FROM TO TOPIC PARTITION SESSION FINAL         a read that gave records: the v lines that follow
    v OFFSET VALUE
    x OFFSET HEX                                    a value in full
    e TIME TEXT                                     the client says that it cannot go on
    end                                             it ended as it should

A file may end in the middle of a line, when its writer was killed.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history import History, Produce
from barnabas.simulation.history_values import Written, read_value, short_form, value_of

_FLUSH_US = 20_000


class NotAHistory(Exception):
    """A line of the file is not one of these; the text names it."""


def now_us() -> int:
    return time.monotonic_ns() // 1000


class HistoryFile:
    """Writes one client's file, in lines of the form above."""

    def __init__(self, path: Path, client: str) -> None:
        self.client = client
        self._file: TextIO = path.open("w", encoding="ascii")
        self._flushed_at = 0
        self._sequences: dict[TopicPartition, int] = {}
        self.write(f"client {client}")
        self._file.flush()

    def sends(self, topic_partition: TopicPartition, *, size_bytes: int) -> tuple[int, bytes]:
        """Sequence and value of the client's next record there; it counts as sent."""
        sequence = self._sequences.get(topic_partition, 0)
        self._sequences[topic_partition] = sequence + 1
        value = value_of(Written(topic_partition, self.client, 0, sequence), size_bytes=size_bytes)
        short = value[: len(value) - len(value.split(b"|", 6)[6])]
        self.write(f"i {now_us()} {short.decode()}")
        return sequence, value

    def acknowledged(self, partition: int, sequence: int, offset: int | None) -> None:
        where = "" if offset is None or offset < 0 else f" {offset}"
        self.write(f"k {now_us()} {partition} {sequence}{where}")

    def gave_up(self, partition: int, sequence: int, error: str) -> None:
        self.write(f"u {now_us()} {partition} {sequence} {error}")

    def read(
        self,
        topic_partition: TopicPartition,
        records: Iterable[tuple[int, bytes]],
        since_us: int,
        *,
        session: int = 0,
        final: bool = False,
    ) -> None:
        """One read gave these offsets and values."""
        topic, partition = topic_partition
        lines = [f"p {since_us} {now_us()} {topic} {partition} {session} {int(final)}"]
        for offset, value in records:
            whole = read_value(value) is not None
            lines.append(f"v {offset} {short_form(value).decode()}" if whole else f"x {offset} {value.hex()}")
        self.write("\n".join(lines))

    def failed(self, text: str) -> None:
        """The client cannot go on."""
        self.write(f"e {now_us()} {' '.join(text.split())}")

    def write(self, line: str) -> None:
        self._file.write(line + "\n")

    def flush(self) -> None:
        """Let others see what was written, not oftener than they look."""
        if (now := now_us()) - self._flushed_at > _FLUSH_US:
            self._flushed_at = now
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.write("end")
        self._file.close()


def read_history(paths: Sequence[Path]) -> tuple[History, list[str]]:
    """The history in these files, and what clients said that stopped them. Raises NotAHistory."""
    history = History()
    complaints: list[str] = []
    for path in paths:
        reader = _Reader(history, path)
        with path.open(encoding="ascii", errors="replace") as file:
            for line in _whole_lines(file):
                reader.take(line)
        complaints += [f"{reader.client}: {text}" for text in reader.complaints]
        if not reader.ended:
            complaints.append(f"{reader.client}: did not end as it should")
    return history, complaints


def _whole_lines(lines: Iterable[str]) -> Iterator[str]:
    return (line[:-1] for line in lines if line.endswith("\n"))


class _Reader:
    """Takes the lines of one file into a history."""

    def __init__(self, history: History, path: Path) -> None:
        self.client = path.stem
        self.complaints: list[str] = []
        self.ended = False
        self._path = path
        self._history = history
        self._open: dict[tuple[int, int], Produce] = {}
        self._records: list[tuple[int, bytes]] = []

    def take(self, line: str) -> None:
        kind, _, rest = line.partition(" ")
        try:
            self._take(kind, rest)
        except (ValueError, KeyError, AssertionError) as error:
            raise NotAHistory(f"{self._path.name}: {line!r}: {error!r}") from error

    def _take(self, kind: str, rest: str) -> None:
        if kind == "i":
            time_us, value = rest.split(" ", 1)
            topic, partition, client, _, sequence, _ = value.split("|", 5)
            where = TopicPartition(topic, int(partition))
            key = (where.partition, int(sequence))
            assert key not in self._open, "sent twice"
            self._open[key] = self._history.produce(client, where, value.encode(), int(time_us))
        elif kind == "k":
            time_us, partition, sequence, *place = rest.split()
            self._closed(partition, sequence).ok(int(place[0]) if place else None, int(time_us))
        elif kind in {"u", "f"}:
            time_us, partition, sequence, error = rest.split(" ", 3)
            operation = self._closed(partition, sequence)
            (operation.unknown if kind == "u" else operation.fail)(error, int(time_us))
        elif kind in {"v", "x"}:
            offset, value = rest.split(" ", 1)
            self._records.append((int(offset), value.encode() if kind == "v" else short_form(bytes.fromhex(value))))
        elif kind == "p":
            self._read(rest)
        elif kind == "client":
            self.client = rest
        elif kind == "e":
            self.complaints.append(rest)
        elif kind == "end":
            self.ended = True
        else:
            raise ValueError("no such kind of event")

    def _closed(self, partition: str, sequence: str) -> Produce:
        return self._open.pop((int(partition), int(sequence)))

    def _read(self, rest: str) -> None:
        since, until, topic, partition, session, final = rest.split()
        self._records = []
        poll = self._history.poll(
            self.client, TopicPartition(topic, int(partition)), int(since), session=int(session), final=final == "1"
        )
        # The records follow; the poll holds the list that they are put into.
        poll.ok(self._records, int(until))
