"""Sees to it that the starts of logs that a fetcher fills become durable soon after they moved.

A leader answers DeleteRecords when the followers have told where their logs start, so they tell only what a power cut
cannot undo. Partitions are fetched meanwhile, and one write of a directory's checkpoint is for all of them.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from barnabas.protocol.ids import TopicPartition
from replication.replica import Replica


class KeptStarts:
    """`spawn` runs the work under a name; `on_kept` hears of each partition whose start is durable now."""

    def __init__(
        self, spawn: Callable[[Coroutine[Any, Any, None], str], None], on_kept: Callable[[TopicPartition], None]
    ) -> None:
        self._spawn = spawn
        self._on_kept = on_kept
        self._moved: dict[TopicPartition, Replica] = {}
        self._is_running = False

    def keep(self, replica: Replica) -> None:
        """Have the start of the replica's log written, if that is not under way."""
        if replica.topic_partition in self._moved:
            return
        self._moved[replica.topic_partition] = replica
        if not self._is_running:
            self._is_running = True
            self._spawn(self._run(), "starts of followed logs")

    async def _run(self) -> None:
        try:
            while self._moved:
                topic_partition, replica = next(iter(self._moved.items()))
                is_kept = await replica.keep_start()
                del self._moved[topic_partition]
                # Whoever hears of it may ask again at once, for where the start has moved meanwhile.
                if is_kept:
                    self._on_kept(topic_partition)
        finally:
            self._moved.clear()
            self._is_running = False
