"""Log directories for tests: opened, closed, and dropped as a killed broker drops them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from barnabas.protocol.ids import BrokerId
from barnabas.runtime.disk import Disk, SystemDisk
from barnabas.storage.boot_record import BootRecord
from barnabas.storage.directories import LogDirectories, StorageSettings
from barnabas.storage.log_config import LogConfig
from tests.support.clock import ManualClock
from tests.support.inline_offload import InlineOffload
from tests.unit.storage.logs import NOW

BOOT_ID = "boot-1"


@dataclass
class Store:
    """Log directories with all that was given to them."""

    directories: LogDirectories
    disk: Disk
    clock: ManualClock
    offload: InlineOffload
    failures: list[str] = field(default_factory=list)

    def kill(self) -> None:
        """Let go of everything as the end of the process does: nothing is written, the locks are free."""
        for directory in self.directories.directories:
            for log in directory.logs.values():
                for segment in log.segments:
                    segment.close_files()
            if directory.lock is not None:
                directory.lock.release()


def make_store(
    *paths: str,
    disk: Disk | None = None,
    config: LogConfig | None = None,
    clock: ManualClock | None = None,
    settings: StorageSettings | None = None,
) -> Store:
    used_disk = disk or SystemDisk()
    used_clock = clock or ManualClock(NOW)
    failures: list[str] = []
    offload = InlineOffload()
    directories = LogDirectories(
        paths,
        disk=used_disk,
        clock=used_clock,
        offload=offload,
        random=Random(1),
        default_config=config or LogConfig(),
        on_failure=lambda path, _: failures.append(path),
        settings=settings,
    )
    return Store(directories, used_disk, used_clock, offload, failures)


async def open_store(
    *paths: str,
    disk: Disk | None = None,
    config: LogConfig | None = None,
    clock: ManualClock | None = None,
    settings: StorageSettings | None = None,
    configs: Mapping[str, LogConfig] | None = None,
) -> Store:
    store = make_store(*paths, disk=disk, config=config, clock=clock, settings=settings)
    await store.directories.open(broker_id=BrokerId(1), cluster_id="cluster", configs=configs)
    store.directories.write_meta_properties(BrokerId(1), "cluster")
    store.directories.record_boot(BootRecord(BOOT_ID, is_intact=True))
    return store
