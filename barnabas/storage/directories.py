"""All log directories of a broker (`log.dirs`): opening, finding, making and deleting logs, and the clean stop.

A directory fails alone; the broker goes on with the others. While a directory is offline only new replicas are made:
one that is not new may stand in the directory that is away.

Order of a start: `acquire` (locks, `meta.properties`), `load`, and after the registration in ZooKeeper
`write_meta_properties`. `run_maintenance` runs until the end; `close` after everything that appends has stopped.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import Disk
from barnabas.runtime.offload import Offload
from barnabas.storage.boot_record import BootRecord
from barnabas.storage.creation import create_log
from barnabas.storage.directory import FailureCallback, LogDirectory
from barnabas.storage.directory_loading import LoadSettings, StorageStartError, acquire, load_logs
from barnabas.storage.file_names import CLEANER_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, partition_directory
from barnabas.storage.future_logs import FutureLogs
from barnabas.storage.log import Log, LogOffline
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_parts import LogPorts
from barnabas.storage.maintenance import MaintenanceSettings, maintain
from barnabas.storage.meta_properties import MetaProperties
from barnabas.storage.open_files import OpenFiles
from barnabas.storage.segment import SegmentFiles
from barnabas.storage.truncation import is_cut_by

log = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class StorageSettings:
    """The broker's own storage settings; Kafka's keys are in the comments. Times in milliseconds."""

    recovery_threads: int = 1  # num.recovery.threads.per.data.dir
    producer_expiration_ms: int = 7 * 24 * 3600 * 1000  # transactional.id.expiration.ms
    open_closed_segments: int = 1000
    maintenance: MaintenanceSettings = field(default_factory=MaintenanceSettings)


class LogDirectories:
    """The broker's logs by partition, and the directories that hold them."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        disk: Disk,
        clock: Clock,
        offload: Offload,
        random: Random,
        default_config: LogConfig,
        on_failure: FailureCallback,
        settings: StorageSettings | None = None,
    ) -> None:
        assert paths
        self.default_config = default_config
        self.settings = settings or StorageSettings()
        self._disk = disk
        self._clock = clock
        self._offload = offload
        self._random = random
        self._files = SegmentFiles(disk, OpenFiles(self.settings.open_closed_segments))
        self._directories = [
            LogDirectory(path, disk=disk, clock=clock, offload=offload, on_failure=on_failure)
            for path in dict.fromkeys(paths)
        ]
        self.futures = FutureLogs(self._directories, disk=disk, random=random, ports_of=self._ports)
        """Logs on their way from one directory to another."""
        self._preferred: dict[TopicPartition, str] = {}

    # Start

    def acquire(self, cluster_id: str | None = None) -> BrokerId | None:
        """Lock the directories and find whose they are; the broker id that they name, None when they are new.

        `cluster_id` is ZooKeeper's. Raises StorageStartError when a directory is in use, belongs to another cluster, or
        two of them to different brokers, or when no directory can be used.
        """
        for directory in self._directories:
            acquire(directory, self._disk)
        self._check_any_online()
        metas = {directory.path: directory.meta for directory in self._directories if directory.meta is not None}
        for path, meta in metas.items():
            if cluster_id is not None and meta.cluster_id not in {None, cluster_id}:
                raise StorageStartError(
                    f"log directory {path} belongs to cluster {meta.cluster_id}, ZooKeeper is that of {cluster_id}"
                )
        brokers = {meta.broker_id for meta in metas.values()}
        if len(brokers) > 1:
            described = ", ".join(f"{path}: {meta.broker_id}" for path, meta in metas.items())
            raise StorageStartError(f"the log directories belong to different brokers ({described})")
        return brokers.pop() if brokers else None

    async def load(self, configs: Mapping[str, LogConfig] | None = None) -> None:
        """Load all logs, recovering them where need be; `configs` by topic where they differ from the default.

        Raises StorageStartError when a partition is there twice or no directory is left.
        """
        settings = LoadSettings(configs or {}, self.default_config, self.settings.recovery_threads)
        await asyncio.gather(*(load_logs(live, self._ports(live), self._offload, settings) for live in self._live()))
        self._check_any_online()
        seen: dict[TopicPartition, str] = {}
        for directory in self._directories:
            for topic_partition in directory.logs:
                if topic_partition in seen:
                    raise StorageStartError(
                        f"partition {topic_partition} is in {seen[topic_partition]} and in {directory.path}"
                    )
                seen[topic_partition] = directory.path
        try:
            self.futures.settle()
        except LogOffline:
            self._check_any_online()

    async def open(
        self, *, broker_id: BrokerId | None, cluster_id: str | None, configs: Mapping[str, LogConfig] | None = None
    ) -> BrokerId | None:
        """`acquire` and `load` in one, for a broker whose id is configured. Raises StorageStartError."""
        stored = self.acquire(cluster_id)
        if broker_id is not None and stored is not None and stored != broker_id:
            raise StorageStartError(
                f"broker.id is {broker_id}, but the log directories belong to broker {stored} (meta.properties)"
            )
        await self.load(configs)
        return broker_id if stored is None else stored

    def write_meta_properties(self, broker_id: BrokerId, cluster_id: str) -> None:
        """Say in every live directory whose it is; after the registration in ZooKeeper."""
        for directory in self._live():
            directory.write_meta(MetaProperties(broker_id, cluster_id))

    def have_survived(self, boot_id: str) -> bool:
        """Whether all that was written before this start is still there: `boot_record` says when that is known."""
        return all(directory.has_survived(boot_id) for directory in self._directories)

    def record_boot(self, record: BootRecord) -> None:
        """Write it into every live directory."""
        for directory in self._live():
            directory.write_boot_record(record)

    # Logs

    def log(self, topic_partition: TopicPartition) -> Log | None:
        """The partition's log, also one whose directory failed."""
        for directory in self._directories:
            found = directory.logs.get(topic_partition)
            if found is not None:
                return found
        return None

    def logs(self) -> list[Log]:
        return [member for directory in self._directories for member in directory.logs.values()]

    def directory_of(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """The directory that holds the partition, offline or not."""
        for directory in self._directories:
            if topic_partition in directory.logs:
                return directory
        return None

    def create_log(
        self, topic_partition: TopicPartition, config: LogConfig | None = None, *, is_new: bool = True
    ) -> Log:
        """The partition's log, made if it is missing, in the live directory with the fewest or the one preferred.

        Raises LogOffline when no directory is left, when creation fails, or when the replica is not new and a directory
        that may hold it is offline.
        """
        existing = self.log(topic_partition)
        if existing is not None:
            if existing.offline:
                raise LogOffline(str(topic_partition))
            return existing
        live = self._live()
        if not live or (not is_new and len(live) < len(self._directories)):
            raise LogOffline(f"{topic_partition}: log directories are offline: {', '.join(self.offline_directories())}")
        preferred = self._preferred.pop(topic_partition, None)
        directory = min(live, key=lambda candidate: (candidate.path != preferred, len(candidate.logs)))
        path = f"{directory.path}/{partition_directory(topic_partition)}"
        try:
            directory.forget_stale(topic_partition)
            created = create_log(topic_partition, path, config or self.default_config, self._ports(directory))
        except OSError as error:
            directory.fail(error)
            raise LogOffline(str(topic_partition)) from error
        directory.logs[topic_partition] = created
        log.info("%s: made a log in %s", topic_partition, directory.path)
        return created

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        """Let the partition's log be made in that directory, if it is ever made."""
        self._preferred[topic_partition] = path

    def delete_log(self, topic_partition: TopicPartition) -> bool:
        """Delete the partition's log: gone at once, its files after file.delete.delay.ms. False when there is none.

        Raises LogOffline when its directory is or goes offline.
        """
        self._preferred.pop(topic_partition, None)
        # First: alone it would be taken for the partition's log at the next start.
        self.futures.discard(topic_partition)
        directory = self.directory_of(topic_partition)
        if directory is None:
            return False
        if directory.is_offline:
            raise LogOffline(str(topic_partition))
        member = directory.logs[topic_partition]
        directory.detach(member, f"{self._random.getrandbits(128):032x}", member.config.file_delete_delay_ms)
        return True

    async def truncate(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Truncate logs; returns once the cuts are synced. Where nothing is cut nothing is done.

        Raises LogOffline or CorruptSegment; a failed write takes the directory offline.
        """
        for directory in self._directories:
            logs = directory.logs
            cuts = {tp: offset for tp, offset in offsets.items() if tp in logs and is_cut_by(logs[tp], offset)}
            await self._prepare_cuts(directory, cuts)
            for topic_partition, offset in cuts.items():
                await directory.truncate(logs[topic_partition], offset)

    async def restart_at(self, topic_partition: TopicPartition, offset: int) -> None:
        """Let a log begin again, empty, at `offset`; returns once that is synced. Raises as `truncate`."""
        directory = self.directory_of(topic_partition)
        assert directory is not None, f"{topic_partition} has no log"
        await self._prepare_cuts(directory, {topic_partition: offset})
        await directory.restart(directory.logs[topic_partition], offset)

    @staticmethod
    async def _prepare_cuts(directory: LogDirectory, cuts: Mapping[TopicPartition, int]) -> None:
        """First of all: whatever a crash leaves of the cuts is then seen by recovery."""
        for topic_partition, offset in cuts.items():
            await directory.settled(directory.logs[topic_partition])
            directory.lower_recovery_point(directory.logs[topic_partition], offset)
        if cuts:
            await directory.checkpoint(RECOVERY_POINT_CHECKPOINT, CLEANER_CHECKPOINT)

    # Directories

    @property
    def directories(self) -> Sequence[LogDirectory]:
        return self._directories

    def offline_directories(self) -> list[str]:
        """The paths of the directories that failed."""
        return [directory.path for directory in self._directories if directory.is_offline]

    def _live(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if not directory.is_offline]

    def _check_any_online(self) -> None:
        if not self._live():
            reasons = "; ".join(f"{directory.path}: {directory.failure}" for directory in self._directories)
            raise StorageStartError(f"no log directory can be used ({reasons})")

    def _ports(self, directory: LogDirectory) -> LogPorts:
        return LogPorts(self._files, self._clock, self._random, directory, self.settings.producer_expiration_ms)

    # Life

    async def run_maintenance(self) -> None:
        """Do what maintenance.py says for each directory, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for directory in self._directories:
                group.create_task(
                    maintain(directory, self._clock, self.settings.maintenance), name=f"maintain {directory.path}"
                )

    async def close(self) -> None:
        """Stop cleanly: flush, snapshots, checkpoints and the clean-shutdown marker in every live directory."""
        await asyncio.gather(*(directory.close() for directory in self._directories))

    def paths(self) -> Iterable[str]:
        return [directory.path for directory in self._directories]
