"""What a compacted log may hold, from what was written to it: a model beside a `CleaningStore` whose disk may crash.

The model keeps every record ever written below the log's end. What a reader finds is a part of it, each record at its
offset, in order; of each key at least the last value is there. A key whose last record is a tombstone has that or
nothing. Nothing of an aborted transaction is shown to who reads what is committed. Producers go on where they were.
"""

from dataclasses import dataclass
from random import Random

from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.records import iterate_records
from barnabas.storage.log import Log
from tests.support.crash_disk import Crashed
from tests.unit.storage.cleaning_store import CleaningStore
from tests.unit.storage.logs import TP, read_bytes

Value = bytes | None


@dataclass(slots=True)
class Entry:
    """A batch: records with keys and values, or the marker of its producer's transaction."""

    offset: int
    records: list[tuple[bytes, Value]]
    producer: int = -1
    sequence: int = -1
    transactional: bool = False
    commits: bool | None = None

    @property
    def end(self) -> int:
        return self.offset + max(1, len(self.records))


class ModelledLog:
    """The store and the model beside it."""

    def __init__(self, store: CleaningStore, random: Random) -> None:
        self.store = store
        self.random = random
        self.entries: list[Entry] = []
        self.under_way: Entry | None = None
        self.durable_to = 0
        self.committed = 0
        self.cut_to: int | None = None
        self.crash: str | None = None
        self.crashes = 0

    @property
    def log(self) -> Log:
        return self.store.log

    @property
    def end(self) -> int:
        return self.entries[-1].end if self.entries else 0

    # What is done to it

    async def open(self) -> None:
        await self.store.open()
        self.check()

    def put(self, records: list[tuple[bytes, Value]], *, producer: int = -1, transactional: bool = False) -> None:
        last = [entry for entry in self.entries if entry.producer == producer and entry.commits is None]
        sequence = -1 if producer < 0 else last[-1].sequence + len(last[-1].records) if last else 0
        entry = Entry(self.end, records, producer, sequence, transactional)
        self._write(
            entry, lambda: self.store.put(*records, producer=_named(producer, sequence), transactional=transactional)
        )

    def end_transaction(self, producer: int, *, commit: bool) -> None:
        entry = Entry(self.end, [], producer, -1, transactional=True, commits=commit)
        self._write(entry, lambda: self.store.end_transaction(producer, commit=commit))

    def is_open(self, producer: int) -> bool:
        """Whether the producer has a transaction open."""
        own = [entry for entry in self.entries if entry.producer == producer and entry.transactional]
        return bool(own) and own[-1].commits is None

    def _write(self, entry: Entry, write) -> None:
        self.under_way = entry
        write()
        self.entries.append(entry)
        self.under_way = None

    async def settle(self, *, committed: int | None = None, rolls: bool = True) -> None:
        """Flush everything; the high watermark is the log's end, or this offset, and only what is above it is cut."""
        self.committed = self.end if committed is None else committed
        await self.store.settle(committed=committed, rolls=rolls)
        self.durable_to = self.end

    async def clean(self, *, rolls: bool = True) -> None:
        await self.settle(rolls=rolls)
        await self.store.cleaner.clean_filthiest()
        await self.store.directory.carry_out_removals()

    async def cut(self, back: int) -> None:
        """Cut so many of the last entries, but nothing that is committed."""
        offset = self.offset_before(back)
        self.durable_to = min(self.durable_to, offset)
        self.cut_to = offset
        await self.store.store.directories.truncate({TP: offset})
        self.cut_to = None
        self.entries = [entry for entry in self.entries if entry.offset < offset]

    def offset_before(self, back: int) -> int:
        """Where so many of the last entries that are not committed begin."""
        loose = [entry.offset for entry in self.entries if entry.offset >= self.committed][-back:] if back else []
        return loose[0] if loose else self.end

    def crash_at(self, kind: str, change: int) -> None:
        """Let the process end, or the power go, at the `change`th change of the disk from now."""
        self.crash = kind
        self.store.disk.crash_at(change, self.random)

    def come_back(self) -> None:
        """After a crash: the machine is there again, the process not yet."""
        disk = self.store.disk
        if self.crash == "power cut":
            disk.power_cut(self.random)
        else:
            disk.kill()
        disk.restart()

    async def recover(self) -> None:
        """Start again after a crash, and forget what it took."""
        self.crashes += 1
        self.come_back()
        while True:
            try:
                await self.store.open()
                break
            except Crashed:
                self.store.disk.restart()
        promised = self.durable_to if self.crash == "power cut" else self.end
        if self.cut_to is not None:
            promised = min(promised, self.cut_to)
        end = self.log.log_end_offset
        if self.under_way is not None and end == self.under_way.end:
            self.entries.append(self.under_way)
        self.under_way = self.cut_to = self.crash = None
        assert promised <= end <= self.end, f"ends at {end}; {promised} were promised, {self.end} written"
        self.entries = [entry for entry in self.entries if entry.offset < end]
        assert self.end == end
        self.durable_to, self.committed = min(self.durable_to, end), min(self.committed, end)
        await self.settle()
        self.check()

    # What must hold

    def check(self) -> None:
        log = self.log
        high_watermark = log.high_watermark
        log.set_high_watermark(log.log_end_offset)
        written = {entry.offset + place: record for entry in self.entries for place, record in enumerate(entry.records)}
        found = _read(log)
        assert [offset for offset, _, _ in found] == sorted(offset for offset, _, _ in found)
        for offset, key, value in found:
            assert written.get(offset) == (key, value), f"{key!r} at {offset} was never written"
        self._check_values(found)
        self._check_producers()
        log.set_high_watermark(high_watermark)
        assert not [name for name in self.store.names() if name.endswith((".cleaned", ".swap"))]

    def _check_values(self, found: list[tuple[int, bytes, Value]]) -> None:
        stable, last = self.log.last_stable_offset, {}
        for entry in self.entries:
            if entry.end <= stable and not self._is_aborted(entry):
                for place, (key, value) in enumerate(entry.records):
                    last[key] = entry.offset + place, value
        shown = {key: (offset, value) for offset, key, value in found if offset < stable}
        for key, (offset, value) in last.items():
            if value is not None:
                assert shown.get(key) == (offset, value), f"{key!r} is {shown.get(key)}, not {(offset, value)}"
            else:
                assert shown.get(key, (offset, None)) == (offset, None), f"{key!r} has come back: {shown[key]}"
        assert shown.keys() <= last.keys(), "something aborted is shown"

    def _is_aborted(self, entry: Entry) -> bool:
        if not entry.transactional:
            return False
        ends = [
            later.commits
            for later in self.entries
            if later.producer == entry.producer and later.commits is not None and later.offset > entry.offset
        ]
        return bool(ends) and ends[0] is False

    def _check_producers(self) -> None:
        for producer in {entry.producer for entry in self.entries if entry.producer >= 0}:
            data = [entry for entry in self.entries if entry.producer == producer and entry.commits is None]
            known = self.log.producers.get(producer)
            assert known is not None, f"producer {producer} is forgotten"
            if data:
                assert known.last_sequence == data[-1].sequence + len(data[-1].records) - 1
            assert (known.txn_first_offset >= 0) is self.is_open(producer)


def _named(producer: int, sequence: int) -> tuple[int, int, int]:
    return (-1, -1, -1) if producer < 0 else (producer, 0, sequence)


def _read(log: Log) -> list[tuple[int, bytes, Value]]:
    """All records that are not of an aborted transaction, as a consumer finds them."""
    found: list[tuple[int, bytes, Value]] = []
    at = log.log_start_offset
    while data := read_bytes(log, at):
        aborted = log.aborted_transactions(start=at, upper=log.log_end_offset)
        for position, header in iterate_entries(data):
            at = header.next_offset
            hidden = header.is_transactional and any(
                txn.producer_id == header.producer_id and txn.first_offset <= header.base_offset <= txn.last_offset
                for txn in aborted
            )
            if not header.is_control and not hidden:
                for record in iterate_records(data, position, header, 1 << 20):
                    assert record.key is not None
                    found.append((record.offset, record.key, record.value))
    return found
