"""The aims of all rows, as the table has them that the comparison serves, and nothing beside them."""

import pytest

from bench.side_by_side.__main__ import all_rows
from bench.side_by_side.row import Row

CPU = "at most 0.6 x"
SHARE = "share of a bare sendfile loop's rate"
INSTEAD = "at most 0.6 x, where a client or the disk is the limit"

# By the beginning of a row's name, of which the longest counts: figure -> aim.
AIMS = {
    "produce, broker-bound": {"MB/s": "at least 1.2 x", "broker CPU s/GB": CPU},
    "produce, librdkafka": {"broker CPU s/GB": CPU},
    "produce, ProducerPerformance": {"broker CPU s/GB": CPU},
    "consume, broker-bound, warm": {"MB/s": "at least 1.2 x", "broker CPU s/GB": CPU, SHARE: "at least 0.7"},
    "consume, broker-bound, warm, pinned": {"MB/s": "at least 1.2 x", "broker CPU s/GB": CPU},
    "consume, broker-bound, cold": {"MB/s": "at least 1.2 x", "broker CPU s/GB": CPU},
    "consume, librdkafka": {"broker CPU s/GB": CPU},
    "consume, ConsumerPerformance": {"broker CPU s/GB": CPU},
    "consume, copies": {},
    "one record a request, 1 in flight": {"requests/s": "at least 0.8 x", "broker CPU us a request": INSTEAD},
    "one record a request, 5 in flight": {"requests/s": "at least 0.8 x", "broker CPU us a request": INSTEAD},
    "one record a request, 100 in flight": {"requests/s": "at least 1 x", "broker CPU us a request": INSTEAD},
    "latency at 1,000 records/s": {},
    "latency at 10,000 records/s": {"p99 acknowledged": "at most 1 x", "p99 end to end": "at most 1 x"},
    "latency at 50,000 records/s": {},
    "failover, kill -9": {"without writes beyond the session": "at most 0.6 x"},
    "failover, SIGTERM": {"time without writes": "at most 0.6 x"},
    "from exec to the first acknowledged record": {"seconds": "at most 0.3 x"},
    "recovery": {},
    "at rest with 30 partitions": {"PSS of a broker": "at most 0.3 x and 90"},
    "at rest with 3,000 partitions": {"PSS of a broker": "at most 0.25 x"},
    "memory under load": {"PSS of a broker": "at most 0.25 x"},
    "a group of 50 members": {},
    "offset commits": {},
    "transactions": {},
    "growth": {},
}


def aims_of(row: Row) -> dict[str, str]:
    return {
        figure: str(target) + (", where a client or the disk is the limit" if target.stands_in else "")
        for figure, target in row.targets.items()
    }


@pytest.mark.parametrize("begin", AIMS)
def test_rows_have_the_aims_of_the_table(begin: str) -> None:
    rows = [row for row in all_rows() if max((b for b in AIMS if row.name.startswith(b)), key=len, default="") == begin]
    assert rows
    assert {row.name: aims_of(row) for row in rows} == {row.name: aims_told(begin, row) for row in rows}


def aims_told(begin: str, row: Row) -> dict[str, str]:
    """A bare loop is one process, and stands beside one broker."""
    return {figure: aim for figure, aim in AIMS[begin].items() if figure != SHARE or row.brokers == 1}


def test_every_row_is_in_the_table() -> None:
    assert not [row.name for row in all_rows() if not row.name.startswith(tuple(AIMS))]
