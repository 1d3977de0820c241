"""Rows of small requests: how many of one record a second, and how long records take at a steady rate."""

import sys
from dataclasses import replace
from typing import Final

from bench.side_by_side import clients
from bench.side_by_side.contestants import HOST
from bench.side_by_side.figures import Figure, Target
from bench.side_by_side.row import CPU_US, LESS_CPU_INSTEAD, REQUESTS_S, Row, Run, request_figures
from bench.side_by_side.usage import run_clients

_SECONDS: Final = 15.0
_ACKNOWLEDGED_P99: Final = "p99 acknowledged"
_READ_P99: Final = "p99 end to end"


def single_records(*, in_flight: int, connections: int = 1, requests: int, at_least: float) -> Row:
    """Requests of one record, `in_flight` unanswered on each connection."""

    def measure(run: Run) -> list[Figure]:
        with run.cluster.topic(partitions=1) as topic:
            count = max(connections * in_flight * 2, int(requests * run.scale))
            answers, seconds, usage = clients.single_records(
                run.cluster, topic, requests=count, connections=connections, window=in_flight
            )
        return request_figures(answers, seconds, usage)

    where = "1 connection" if connections == 1 else f"{connections} connections"
    target = {REQUESTS_S: Target(at_least=True, ratio=at_least), CPU_US: LESS_CPU_INSTEAD}
    return Row(f"one record a request, {in_flight} in flight, {where}", measure, target)


def latency(rate: int, acks: int) -> Row:
    """Records of 100 bytes at a fixed rate."""

    def measure(run: Run) -> list[Figure]:
        replicas = 3 if acks == -1 else 1
        seconds = max(1.0, _SECONDS * run.scale)
        with run.cluster.topic(partitions=1, replication_factor=replicas) as topic:
            arguments = [HOST, str(run.cluster.ports[1]), topic, "1", str(rate), str(seconds), str(acks)]
            ran = run_clients(run.cluster, [[sys.executable, "-m", "bench.latency_load", *arguments]])
        told, usage = clients.of_load(ran)
        names = {"acknowledged": "acknowledged", "read": "end to end"}
        return [
            Figure(f"{percentile} {names[kind]}", told[kind][percentile], "ms", usage.limiter, shares=usage.shares)
            for kind in names
            for percentile in ("p50", "p99", "p99.9", "max")
        ]

    # Both ends of a record's way are bound at the rate that the table of the aims names.
    targets = (
        {name: Target(at_least=False, ratio=1.0) for name in (_ACKNOWLEDGED_P99, _READ_P99)} if rate == 10_000 else {}
    )
    replicated = "acks=all RF 3" if acks == -1 else "acks=1 RF 1"
    return Row(f"latency at {rate:,} records/s, {replicated}", measure, targets, 3 if acks == -1 else 1)


def rows() -> list[Row]:
    core = [
        single_records(in_flight=1, requests=80_000, at_least=0.8),
        single_records(in_flight=100, requests=200_000, at_least=1.0),
        latency(10_000, 1),
        latency(10_000, -1),
    ]
    others = [
        single_records(in_flight=5, requests=160_000, at_least=0.8),
        single_records(in_flight=1, connections=50, requests=400_000, at_least=0.8),
        single_records(in_flight=1, connections=500, requests=400_000, at_least=0.8),
        *(latency(rate, acks) for rate in (1_000, 50_000) for acks in (1, -1)),
    ]
    return [*(replace(row, is_core=True) for row in core), *others]
