"""Transactions that our storage writes into the directory of a stopped broker, as a coordinator's brokers would.

Two producers write in turn over several segments; what one commits the other aborts. A third leaves one open.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.protocol.records import ControlRecordType, EndTxnMarker, build_end_txn_marker
from barnabas.storage.append import AppendOrigin
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.meta_properties import MetaProperties
from tests.support.clock import ManualClock
from tests.unit.storage.logs import batch
from tests.unit.storage.stores import make_store

COMMITS, ABORTS, UNDECIDED = 5000, 5001, 5002
_ROUNDS: Final = 16
_RECORDS: Final = 4
_COORDINATOR_EPOCH: Final = 3


@dataclass(slots=True)
class Written:
    """What a reader must find: offsets of committed records, (producer, first offset) of each that was aborted."""

    committed: list[int] = field(default_factory=list)
    aborted: set[tuple[int, int]] = field(default_factory=set)
    stable_end_offset: int = 0
    end_offset: int = 0


async def write_transactions(directory: Path, where: TopicPartition) -> Written:
    """Open the directory, write, and close it cleanly."""
    cluster_id = MetaProperties.decode((directory / "meta.properties").read_bytes()).cluster_id
    now_ms = int(time.time() * 1000)
    store = make_store(str(directory), clock=ManualClock(now_ms))
    small = LogConfig(segment_bytes=4000, index_interval_bytes=300, retention_ms=-1)
    await store.directories.open(broker_id=BrokerId(1), cluster_id=cluster_id, configs={where.topic: small})
    log = store.directories.log(where)
    assert log is not None
    written = Written()
    for number in range(_ROUNDS):
        firsts = {}
        for producer_id in (COMMITS, ABORTS):
            first = _append_data(log, producer_id, number * _RECORDS, now_ms)
            firsts[producer_id] = first
        _append_marker(log, ABORTS, ControlRecordType.ABORT, now_ms)
        written.aborted.add((ABORTS, firsts[ABORTS]))
        _append_marker(log, COMMITS, ControlRecordType.COMMIT, now_ms)
        written.committed += range(firsts[COMMITS], firsts[COMMITS] + _RECORDS)
    written.stable_end_offset = _append_data(log, UNDECIDED, 0, now_ms)
    written.end_offset = log.log_end_offset
    log.set_high_watermark(log.log_end_offset)
    assert len(log.segments) > 3
    await store.directories.close()
    return written


def _append_data(log: Log, producer_id: int, sequence: int, now_ms: int) -> int:
    values = [b"%d " % number * 40 for number in range(_RECORDS)]
    data = batch(*values, timestamp=now_ms, producer=(producer_id, 0, sequence), transactional=True)
    return _append(log, data, AppendOrigin.CLIENT, now_ms)


def _append_marker(log: Log, producer_id: int, kind: ControlRecordType, now_ms: int) -> None:
    marker = EndTxnMarker(kind, _COORDINATOR_EPOCH)
    data = build_end_txn_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=now_ms)
    _append(log, memoryview(bytearray(data)), AppendOrigin.COORDINATOR, now_ms)


def _append(log: Log, data: memoryview, origin: AppendOrigin, now_ms: int) -> int:
    epoch = max(log.leader_epochs.latest_epoch, 0)
    return log.append(data, leader_epoch=epoch, origin=origin, now_ms=now_ms).first_offset
