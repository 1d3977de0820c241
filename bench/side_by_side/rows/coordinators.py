"""Rows of coordinators: members that join, offsets that are committed, transactions. The client is this process."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Final

from bench import group_load, transaction_load
from bench.raw_line import Line, WrongAnswer, pace, unexpected
from bench.side_by_side.figures import Figure
from bench.side_by_side.row import Row, Run
from bench.side_by_side.usage import Usage, Watch, watch

_MEMBERS: Final = 50
_CONNECTIONS: Final = 50
_PACE: Final = 5000.0
_SECONDS: Final = 10.0
_WARM_S: Final = 2.0
_RETRY_S: Final = 0.02
_numbers = itertools.count(1)


def joins() -> Row:
    """Members of a large group: all enter it, and all join again with another subscription."""

    def measure(run: Run) -> list[Figure]:
        address, group_id = run.cluster.address(1), f"joined-{next(_numbers)}"

        async def work() -> list[Figure]:
            members = await group_load.new_members(address, group_id, _MEMBERS)
            first = await group_load.rebalance(members, b"first")
            again = await group_load.rebalance(members, b"again")
            for member in members:
                member.line.close()
            # Milliseconds: the kernel's clock does not tell who used them.
            return [
                Figure("all have entered", first.whole_s, "s"),
                Figure("all have joined again", again.whole_s, "s"),
            ]

        return asyncio.run(work())

    return Row(f"a group of {_MEMBERS} members", measure)


def commits() -> Row:
    """Commits of one partition on each of the connections: one after the other, and at a steady rate."""

    def measure(run: Run) -> list[Figure]:
        address, seconds = run.cluster.address(1), max(1.0, _SECONDS * run.scale)

        async def closed(topic: str) -> tuple[int, Usage]:
            turns = await group_load.commits(address, topic, connections=_CONNECTIONS)
            by_line: dict[Line, list[bytes]] = {}
            for line, frame in turns:
                by_line.setdefault(line, []).append(frame)
            with Watch(run.cluster) as watched:
                ends_s = time.perf_counter() + seconds
                counts = await asyncio.gather(*(_repeat(line, frames, ends_s) for line, frames in by_line.items()))
            for line in by_line:
                line.close()
            return sum(counts), watched.usage

        async def paced(topic: str) -> tuple[float, Usage]:
            turns = await group_load.commits(address, topic, connections=_CONNECTIONS)
            with Watch(run.cluster) as watched:
                told = await pace(turns, rate=_PACE, seconds=seconds)
            for line in {id(line): line for line, _ in turns}.values():
                line.close()
            return told.percentile_ms(0.99), watched.usage

        with run.cluster.topic(partitions=1) as topic:
            count, usage = asyncio.run(closed(topic))
            p99_ms, paced_usage = asyncio.run(paced(topic))
        return [
            Figure("commits/s", count / usage.seconds, "commits/s", usage.limiter, is_rate=True, shares=usage.shares),
            Figure("broker CPU us a commit", usage.brokers / count * 1e6, "us", usage.limiter),
            Figure("p99 at 5,000 commits/s", p99_ms, "ms", paced_usage.limiter, shares=paced_usage.shares),
        ]

    return Row(f"offset commits on {_CONNECTIONS} connections", measure)


def transactions(producers: int) -> Row:
    """Transactions of one record, one after the other in each producer."""

    def measure(run: Run) -> list[Figure]:
        seconds = max(1.0, _SECONDS * run.scale)
        with run.cluster.topic(partitions=producers) as topic:
            load = transaction_load.transactions(
                run.cluster.address(1),
                topic,
                producers=producers,
                seconds=seconds,
                warm_s=min(_WARM_S, seconds),
                retry_s=_RETRY_S,
            )
            told, usage = watch(run.cluster, lambda: asyncio.run(load))
        return [
            Figure("transactions/s", told.rate, "transactions/s", usage.limiter, is_rate=True, shares=usage.shares),
            Figure("p99", told.percentile_ms(0.99), "ms", usage.limiter),
        ]

    return Row(f"transactions of {producers} producers" if producers > 1 else "transactions of 1 producer", measure)


async def _repeat(line: Line, frames: Sequence[bytes], ends_s: float) -> int:
    """Send a frame when the one before is answered, round and round; how many were. Raises WrongAnswer."""
    count = 0
    while time.perf_counter() < ends_s:
        answer = await line.exchange(frames[count % len(frames)])
        if wrong := unexpected(answer, line.expected):
            raise WrongAnswer(wrong)
        count += 1
    return count


def rows() -> list[Row]:
    return [joins(), commits(), transactions(1), transactions(20)]
