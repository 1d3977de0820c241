"""Rows of growth: what more partitions, connections, consumers and bytes cost, as curves with their exponents."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from bench.side_by_side import clients
from bench.side_by_side.clients import Shape
from bench.side_by_side.figures import Figure, exponent
from bench.side_by_side.row import Incomplete, Row, Run, request_figures, volume_figures
from bench.side_by_side.rows.life import time_to_first_record

_GB: Final = 1_000_000_000
_REQUESTS: Final = 40_000
_DELIVERED: Final = 4 * _GB

Point = Callable[[Run, int], list[Figure]]
"""Figures of one size of what grows."""


def growth(what: str, sizes: Sequence[int], unit: str, point: Point, *, restarts: bool) -> Row:
    """One figure of each kind for each size, and the exponent of each curve. A smoke run has the two smallest.

    What restarts its broker gets a cluster of its own, and the others a warm one. A size that fails ends the curve:
    those before it are kept.
    """

    def measure(run: Run) -> list[Figure]:
        found: list[Figure] = []
        for size in sizes if run.scale >= 1 else sizes[:2]:
            try:
                found += [replace(figure, at=size) for figure in point(run, size)]
            except Exception as error:
                if not found:
                    raise
                reason = f"at {size:,}: {type(error).__name__}: {error}"
                raise Incomplete([*found, *exponents(found)], reason) from error
        return [*found, *exponents(found)]

    return Row(f"growth, {what} from {sizes[0]:,} to {sizes[-1]:,}{unit}", measure, is_fresh=restarts)


def exponents(points: Sequence[Figure]) -> list[Figure]:
    """Of each curve that has two points. That of a rate is a rate too: the greater, the less the rate gives way."""
    curves: defaultdict[str, list[Figure]] = defaultdict(list)
    for figure in points:
        curves[figure.name].append(figure)
    return [
        Figure(
            f"exponent of {name}",
            exponent({each.at: each.value for each in curve if each.at is not None}),
            "",
            statistics.mode(each.limiter for each in curve),
            curve[0].is_rate,
        )
        for name, curve in curves.items()
        if len(curve) > 1
    ]


def _partitions(run: Run, count: int) -> list[Figure]:
    with run.cluster.topic(partitions=count) as topic:
        started = time_to_first_record(run.cluster, topic, "exec to first record")
        return [started, Figure("PSS", run.cluster.system(1).pss_bytes() / 1e6, "MB")]


def _connections(run: Run, count: int) -> list[Figure]:
    requests = max(2 * count, int(_REQUESTS * run.scale))
    with run.cluster.topic(partitions=1) as topic:
        return request_figures(
            *clients.single_records(run.cluster, topic, requests=requests, connections=count, window=1)
        )


def _consumers(run: Run, count: int) -> list[Figure]:
    shape = Shape(max(10_000_000, int(_GB * run.scale)), 1000)
    with run.cluster.topic(partitions=1) as topic:
        clients.replay(run.cluster, topic, shape)
        answer_bytes = int(_DELIVERED * run.scale)
        return volume_figures(
            clients.drain(
                run.cluster, topic, partitions=1, records=shape.records, answer_bytes=answer_bytes, connections=count
            )
        )


def _log_size(run: Run, gigabytes: int) -> list[Figure]:
    shape = Shape(max(10_000_000, int(gigabytes * _GB * run.scale)), 1000)
    with run.cluster.topic(partitions=1) as topic:
        clients.replay(run.cluster, topic, shape)
        return [time_to_first_record(run.cluster, topic, "exec to first record")]


def rows() -> list[Row]:
    return [
        growth("partitions", (10, 100, 1_000, 5_000), "", _partitions, restarts=True),
        growth("connections", (10, 100, 500, 2_000), "", _connections, restarts=False),
        growth("consumers of a topic", (1, 10, 100), "", _consumers, restarts=False),
        growth("a log", (1, 5, 20), " GB", _log_size, restarts=True),
    ]
