"""Records arrive at fixed times: a stall counts for all that were due while it lasted, whoever it was that stalled."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest

from barnabas.protocol.batch import read_header
from bench import latency_load
from bench.side_by_side.contestants import HOST
from tests.unit.bench.chosen_answers import framed, requests_of, serving
from tests.unit.bench.small_broker import FETCH, PRODUCE, TOPIC, fetched, produced

FIRST = 1
RATE = 1000.0
RECORDS = 500


def records_in(request: bytes) -> int:
    """Of a Produce of one batch."""
    # One topic with its name; one partition: its number, the batch's length, the batch.
    return read_header(request, request.index(b"\0\5topic") + 2 + 5 + 4 + 4 + 4).record_count


def batch_of(base_offset: int, records: int) -> bytes:
    """As much of a batch as a load looks at."""
    return struct.pack(">qi11xi34x", base_offset, 49, records - 1)


class Leader:
    """Of one partition. It says nothing while the number of records that it has heard is in `withheld`."""

    def __init__(
        self,
        *,
        withheld: range = range(0),
        errors: Mapping[int, int] | None = None,
        on_heard: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._withheld = withheld
        self._errors = {PRODUCE: 0, FETCH: 0, **(errors or {})}
        self._on_heard = on_heard
        self._end = 0
        self._has_grown = threading.Condition()

    def talk(self, peer: socket.socket) -> None:
        heard = unanswered = told = 0
        with contextlib.suppress(ConnectionError):
            for request in requests_of(peer):
                if struct.unpack_from(">h", request) == (FETCH,):
                    end = self._end_beyond(told)
                    peer.sendall(framed(fetched(self._errors[FETCH], batch_of(FIRST + told, end - told))))
                    told = end
                    continue
                heard += records_in(request)
                unanswered += 1
                self._on_heard(heard)
                if heard not in self._withheld:
                    peer.sendall(framed(produced(self._errors[PRODUCE])) * unanswered)
                    unanswered = 0
                    self._append(heard)

    def _append(self, end: int) -> None:
        with self._has_grown:
            self._end = end
            self._has_grown.notify_all()

    def _end_beyond(self, told: int) -> int:
        with self._has_grown:
            self._has_grown.wait_for(lambda: self._end > told, timeout=10)
            return self._end


@pytest.fixture(autouse=True)
def all_records_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency_load, "_WARM_S", 0.0)
    monkeypatch.setattr(latency_load, "_PATIENCE_S", 5.0)


def load(leader: Leader) -> tuple[list[float], list[float]]:
    """By record, milliseconds until it was acknowledged, and until it was read."""
    with serving(leader.talk) as port:
        steady = latency_load._Load(HOST, port, TOPIC, FIRST, rate=RATE, acks=1)
        with steady._writer.socket, steady._reader.socket:
            steady.run(RECORDS / RATE)
    return steady.acknowledged, steady.read


def test_a_stall_of_the_broker_counts_for_each_record_that_was_due_meanwhile_and_they_go_on() -> None:
    """It lasts until the 300th record was heard, which a load that waits for answers would never send."""
    for waited_ms in load(Leader(withheld=range(100, 300))):
        assert len(waited_ms) == RECORDS
        assert [n for n in range(100, 299) if waited_ms[n] < (299 - n) / RATE * 1000] == []
        assert sum(each >= 100 for each in waited_ms) >= 100
        assert latency_load._percentiles(waited_ms)["p99"] > 190


def test_where_the_load_itself_stands_still_records_count_from_when_they_were_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    skipped_s = 0.0

    def skip(heard: int) -> None:
        nonlocal skipped_s
        if heard > 100:
            skipped_s = 0.2

    monkeypatch.setattr(latency_load, "time", SimpleNamespace(perf_counter=lambda: time.perf_counter() + skipped_s))
    for waited_ms in load(Leader(on_heard=skip)):
        assert len(waited_ms) == RECORDS
        assert [n for n in range(100, 300) if waited_ms[n] < (300 - n) / RATE * 1000] == []


@pytest.mark.parametrize("api_key", [PRODUCE, FETCH])
def test_a_broker_that_refuses_has_no_latency(api_key: int) -> None:
    with pytest.raises(RuntimeError, match="the broker answers error 7"):
        load(Leader(errors={api_key: 7}))
