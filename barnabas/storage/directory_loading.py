"""Opening a log directory: the lock, `meta.properties`, and the loading of all its logs.

The logs of a directory are loaded by a few workers at once, directories beside each other; scans of large segments run
in worker processes. The clean-shutdown marker is looked at once, and removed, durably, when all logs are loaded and
before anything can be appended: a marker that came back after a power cut would let damage pass. Damage that was found
is kept before anything is written that a later start would take for a sign that all is well (`known_damage`).
"""

import asyncio
import logging
import os.path
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.disk import Disk
from barnabas.runtime.offload import Offload
from barnabas.storage.boot_record import BOOT_RECORD
from barnabas.storage.checkpoints import whose_offsets
from barnabas.storage.damaged_scan import ScanTask, run_scan
from barnabas.storage.directory import LogDirectory
from barnabas.storage.file_names import (
    CLEAN_SHUTDOWN_MARKER,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    is_deleted_directory,
    is_future_directory,
    parse_partition_directory,
)
from barnabas.storage.known_damage import recall_damage
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_parts import LogPorts
from barnabas.storage.meta_properties import InvalidMetaProperties, MetaProperties
from barnabas.storage.recovery import LoadSteps, LogLoader
from barnabas.storage.scan import SegmentScan
from barnabas.storage.unsynced_mark import UNSYNCED_MARK, mark_unsynced

log = logging.getLogger(__name__)


class StorageStartError(Exception):
    """The broker must not start on these log directories; the message says why."""


@dataclass(slots=True, frozen=True)
class LoadSettings:
    """How logs are loaded. `configs` has the topics whose settings differ from the default."""

    configs: Mapping[str, LogConfig]
    default_config: LogConfig
    threads: int


def acquire(directory: LogDirectory, disk: Disk) -> None:
    """Make the directory if need be, lock it and read whose it is. Raises StorageStartError; I/O errors fail it."""
    try:
        _make_durably(disk, directory.path)
        directory.lock = disk.lock(f"{directory.path}/{LOCK_FILE}")
        directory.meta = MetaProperties.decode(disk.read_bytes(f"{directory.path}/{META_PROPERTIES}"))
    except BlockingIOError:
        raise StorageStartError(f"log directory {directory.path} is in use by another process") from None
    except FileNotFoundError:
        directory.meta = None
    except InvalidMetaProperties as error:
        raise StorageStartError(f"{directory.path}/{META_PROPERTIES}: {error}") from None
    except OSError as error:
        directory.fail(error)


def _is_ours(disk: Disk, path: str) -> bool:
    """Whether this broker, and not Kafka, wrote the recovery points, or was here where there are none yet."""
    try:
        told = whose_offsets(disk.read_bytes(f"{path}/{RECOVERY_POINT_CHECKPOINT}"))
    except FileNotFoundError:
        told = None
    return disk.exists(f"{path}/{BOOT_RECORD}") if told is None else told


def _make_durably(disk: Disk, path: str) -> None:
    """Make the directory and its parents so that their names survive a power cut."""
    missing: list[str] = []
    while path and not disk.exists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for made in reversed(missing):
        disk.make_directory(made)
        disk.fsync_directory(os.path.dirname(made) or ".")


async def load_logs(directory: LogDirectory, ports: LogPorts, offload: Offload, settings: LoadSettings) -> None:
    """Load all logs of the directory. An I/O error fails the directory."""
    disk, started_ms = ports.disk, ports.clock.monotonic_ms()
    marker = f"{directory.path}/{CLEAN_SHUTDOWN_MARKER}"
    try:
        is_ours = _is_ours(disk, directory.path)
        writes_again = directory.was_unsynced = disk.exists(f"{directory.path}/{UNSYNCED_MARK}")
        has_marker = disk.exists(marker)
        clean = directory.was_clean = has_marker and not writes_again
        names = disk.list_directory(directory.path)
        recovery_points = directory.read_checkpoint(RECOVERY_POINT_CHECKPOINT)
        start_offsets = directory.read_checkpoint(LOG_START_OFFSET_CHECKPOINT)
        high_watermarks = directory.read_checkpoint(HIGH_WATERMARK_CHECKPOINT)
        directory.first_dirty = directory.read_checkpoint(CLEANER_CHECKPOINT)
        found = _partitions(directory, disk, names, settings)
        loaders = [
            LogLoader(
                topic_partition,
                f"{directory.path}/{name}",
                settings.configs.get(topic_partition.topic, settings.default_config),
                ports,
                clean=clean,
                recovery_point=recovery_points.get(topic_partition, 0),
                log_start_offset=start_offsets.get(topic_partition, 0),
                cleaned_to=directory.first_dirty.get(topic_partition, 0),
                is_ours=is_ours,
                writes_again=writes_again,
            )
            for name, topic_partition in found
        ]
        waiting = iter(loaders)
        await asyncio.gather(*(_load(directory, offload, waiting, lane) for lane in range(settings.threads)))
        for (name, _), loader in zip(found, loaders, strict=True):
            loaded = loader.result
            assert loaded is not None
            high_watermark = high_watermarks.get(loaded.topic_partition, 0)
            _adopt(directory, loaded, high_watermark, is_future=is_future_directory(name))
            # What only the names of files say is not synced yet.
            loaded.durable_start_offset = min(start_offsets.get(loaded.topic_partition, 0), loaded.log_start_offset)
        recall_damage(directory, disk)
        waiting = iter(loaders)
        await asyncio.gather(*(_settle(directory, offload, waiting, lane) for lane in range(settings.threads)))
        # A kill may have come between the end of a partition and that of its entries.
        said = {*recovery_points, *start_offsets, *high_watermarks, *directory.first_dirty}
        directory.stale |= said.difference(directory.logs, directory.futures)
        too_high = any(recovery_points.get(tp, 0) > each.log_end_offset for tp, each in directory.logs.items())
        if too_high or (found and not is_ours):
            # From here on the logs grow, and by our rules.
            points = directory.offsets_to_checkpoint(RECOVERY_POINT_CHECKPOINT)
            await offload.thread(
                f"flush:{directory.path}", directory.write_checkpoint, RECOVERY_POINT_CHECKPOINT, points
            )
        if has_marker:
            disk.remove(marker)
        # After a crash the names of the logs themselves may not have reached the disk.
        disk.fsync_directory(directory.path)
        directory.is_loaded = True
    except OSError as error:
        mark_unsynced(disk, directory.path)
        directory.fail(error)
        return
    is_new = directory.meta is None and not directory.logs
    log.info(
        "%s: loaded %d logs in %d ms%s",
        directory.path,
        len(directory.logs),
        ports.clock.monotonic_ms() - started_ms,
        " after a clean stop" if clean else "; the directory is new" if is_new else " after an unclean stop",
    )


def _partitions(
    directory: LogDirectory, disk: Disk, names: list[str], settings: LoadSettings
) -> list[tuple[str, TopicPartition]]:
    found: list[tuple[str, TopicPartition]] = []
    for name in names:
        path = f"{directory.path}/{name}"
        if not disk.is_directory(path):
            continue
        topic_partition = parse_partition_directory(name)
        if topic_partition is None:
            log.warning("%s: left alone, not a partition's directory", path)
        elif is_deleted_directory(name):
            directory.remove_directory_later(path, settings.default_config.file_delete_delay_ms)
        else:
            found.append((name, topic_partition))
    return found


async def _load(directory: LogDirectory, offload: Offload, waiting: Iterator[LogLoader], lane: int) -> None:
    steps: LoadSteps | None = None
    scan: SegmentScan | None = None
    while True:
        asked = await offload.thread(f"load:{directory.path}:{lane}", _advance, waiting, steps, scan)
        if asked is None:
            return
        steps, task = asked
        scan = await offload.process(run_scan, task)


def _advance(
    waiting: Iterator[LogLoader], steps: LoadSteps | None, scan: SegmentScan | None
) -> tuple[LoadSteps, ScanTask] | None:
    """Go on with a log, then with those that wait, until one asks for a large scan.

    Thousands of small logs are loaded without a way back to the loop between them.
    """
    while True:
        if steps is None:
            loader = next(waiting, None)
            if loader is None:
                return None
            steps = loader.steps()
        try:
            return steps, next(steps) if scan is None else steps.send(scan)
        except StopIteration:
            steps = scan = None


async def _settle(directory: LogDirectory, offload: Offload, waiting: Iterator[LogLoader], lane: int) -> None:
    def settle() -> None:
        for loader in waiting:
            loader.settle()

    await offload.thread(f"load:{directory.path}:{lane}", settle)


def _adopt(directory: LogDirectory, loaded: Log, high_watermark: int, *, is_future: bool) -> None:
    loaded.set_high_watermark(high_watermark)
    (directory.futures if is_future else directory.logs)[loaded.topic_partition] = loaded
    if loaded.damage.ends_lost_at(loaded.log_end_offset):
        # A batch behind what is lost would seem to jump ahead there, or close the gap, at the next start.
        loaded.roll("it has lost its end")
    # What recovery found may be in the page cache only, the cuts it found or made too.
    if not loaded.is_flushed(loaded.log_end_offset):
        directory.flush_soon(loaded, loaded.log_end_offset)
