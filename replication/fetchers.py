"""The fetchers of a broker: one for each leader it follows and each of num.replica.fetchers, made when first needed."""

import asyncio
import dataclasses
from collections.abc import Iterable

from barnabas.protocol.ids import NO_LEADER, BrokerId, TopicPartition
from replication.fetcher import Fetcher
from replication.fetcher_ports import FetcherPorts, FetcherSettings, FetchFigures
from replication.follower import fetcher_index
from replication.replica import Replica


class Fetchers:
    """Who fetches which partition."""

    def __init__(self, settings: FetcherSettings, ports: FetcherPorts) -> None:
        self._settings = settings
        self._ports = ports
        self._fetchers: dict[tuple[BrokerId, int], tuple[Fetcher, asyncio.Task[None]]] = {}
        self._fetcher_of: dict[TopicPartition, Fetcher] = {}

    def __len__(self) -> int:
        """How many fetchers run."""
        return len(self._fetchers)

    def figures(self) -> FetchFigures:
        """What the metrics show."""
        fetchers = [fetcher for fetcher, _ in self._fetchers.values()]
        count = self._ports.count
        return FetchFigures(
            fetchers=len(fetchers),
            requests=count.requests,
            received_bytes=count.received_bytes,
            max_lag=max((fetcher.max_lag for fetcher in fetchers), default=0),
            stopped_partitions=sum(fetcher.stopped_partitions for fetcher in fetchers),
        )

    def follow(self, replica: Replica) -> None:
        """Fetch the partition from its present leader, in its present epoch."""
        topic_partition = replica.topic_partition
        assert replica.leader_id not in (NO_LEADER, self._settings.replica_id)
        index = fetcher_index(topic_partition, self._settings.fetchers_per_leader)
        fetcher = self._fetcher(replica.leader_id, index)
        if self._fetcher_of.get(topic_partition) is not fetcher:
            self.unfollow(topic_partition)
            self._fetcher_of[topic_partition] = fetcher
        fetcher.follow(replica)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Fetch the partition no more, if it was fetched."""
        fetcher = self._fetcher_of.pop(topic_partition, None)
        if fetcher is not None:
            fetcher.unfollow(topic_partition)

    def change_count(self, fetchers_per_leader: int, replicas: Iterable[Replica]) -> None:
        """Let so many fetchers share what a leader has; `replicas` are all that are here."""
        self._settings = dataclasses.replace(self._settings, fetchers_per_leader=fetchers_per_leader)
        for replica in replicas:
            if replica.topic_partition in self._fetcher_of:
                self.follow(replica)
        self.stop_idle()

    def stop_idle(self) -> None:
        """End the fetchers that have nothing left to fetch."""
        for key, (fetcher, task) in list(self._fetchers.items()):
            if not len(fetcher):
                del self._fetchers[key]
                task.cancel()

    async def stop(self) -> None:
        """Fetch nothing any more; returns when no fetcher runs."""
        self._fetcher_of.clear()
        tasks = [task for _, task in self._fetchers.values()]
        self._fetchers.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fetcher(self, leader_id: BrokerId, index: int) -> Fetcher:
        found = self._fetchers.get((leader_id, index))
        if found is None:
            fetcher = Fetcher(leader_id, index, self._settings, self._ports)
            task = self._ports.spawn(fetcher.run(), name=f"fetcher {index} of broker {leader_id}")
            found = self._fetchers[leader_id, index] = fetcher, task
        return found[0]
