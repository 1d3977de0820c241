"""What goes on in a log directory in the background, one task each.

Flushes that logs asked for, flushes by time (flush.ms), the three checkpoint files at their intervals, removals after
their delay, and one sweep over the logs that is spread over log.retention.check.interval.ms: retention and the expiry
of idle producers. Each piece ends when the directory is offline.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass

from barnabas.runtime.clock import Clock
from barnabas.storage.directory import LogDirectory
from barnabas.storage.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from barnabas.storage.log import Log, LogOffline
from barnabas.storage.log_config import MAX_INT64

log = logging.getLogger(__name__)

_LEAST_STEP_S = 0.02


@dataclass(slots=True, frozen=True)
class MaintenanceSettings:
    """Intervals in milliseconds; Kafka's keys are in the comments."""

    initial_delay_ms: int = 30_000
    retention_check_interval_ms: int = 300_000  # log.retention.check.interval.ms
    recovery_point_interval_ms: int = 60_000  # log.flush.offset.checkpoint.interval.ms
    start_offset_interval_ms: int = 60_000  # log.flush.start.offset.checkpoint.interval.ms
    high_watermark_interval_ms: int = 5_000  # replica.high.watermark.checkpoint.interval.ms
    flush_check_interval_ms: int = 500
    removal_check_interval_ms: int = 500


async def maintain(directory: LogDirectory, clock: Clock, settings: MaintenanceSettings) -> None:
    """Keep the directory in order until cancelled, or until it is offline."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_carry_out_flushes(directory))
        group.create_task(_flush_by_time(directory, clock, settings.flush_check_interval_ms))
        group.create_task(_remove(directory, settings.removal_check_interval_ms))
        group.create_task(_sweep(directory, clock, settings))
        for name, interval_ms in (
            (HIGH_WATERMARK_CHECKPOINT, settings.high_watermark_interval_ms),
            (RECOVERY_POINT_CHECKPOINT, settings.recovery_point_interval_ms),
            (LOG_START_OFFSET_CHECKPOINT, settings.start_offset_interval_ms),
        ):
            group.create_task(_checkpoint(directory, name, interval_ms))


async def _carry_out_flushes(directory: LogDirectory) -> None:
    while not directory.is_offline:
        directory.wake.clear()
        await directory.carry_out_flushes()
        if directory.stale:
            await directory.checkpoint_all()
        if not directory.flush_requests and not directory.is_offline:
            await directory.wake.wait()


async def _flush_by_time(directory: LogDirectory, clock: Clock, interval_ms: int) -> None:
    while not directory.is_offline:
        await asyncio.sleep(interval_ms / 1000)
        await flush_due(directory, clock.monotonic_ms())


async def flush_due(directory: LogDirectory, now_ms: int) -> None:
    """Flush the logs that have had something to flush for flush.ms."""
    for member in list(directory.logs.values()):
        flush_ms = member.config.flush_ms
        if flush_ms == MAX_INT64 or member.unflushed_messages <= 0 or member.offline:
            continue
        if now_ms - member.last_flush_ms >= flush_ms:
            # A directory that has failed has said so; a log may be deleted meanwhile, and the others go on.
            with contextlib.suppress(LogOffline):
                await directory.flush(member, member.log_end_offset)


async def _remove(directory: LogDirectory, interval_ms: int) -> None:
    while not directory.is_offline:
        await directory.carry_out_removals()
        await asyncio.sleep(interval_ms / 1000)


async def _checkpoint(directory: LogDirectory, name: str, interval_ms: int) -> None:
    while not directory.is_offline:
        await asyncio.sleep(interval_ms / 1000)
        await directory.checkpoint(name)


async def _sweep(directory: LogDirectory, clock: Clock, settings: MaintenanceSettings) -> None:
    await asyncio.sleep(min(settings.initial_delay_ms, settings.retention_check_interval_ms) / 1000)
    while not directory.is_offline:
        members = list(directory.logs.values())
        pause_s = settings.retention_check_interval_ms / 1000 / max(len(members), 1)
        at_once = max(1, round(_LEAST_STEP_S / pause_s)) if pause_s < _LEAST_STEP_S else 1
        for first in range(0, max(len(members), 1), at_once):
            for member in members[first : first + at_once]:
                sweep_log(directory, member, clock.wall_ms())
            await asyncio.sleep(pause_s * at_once)


def sweep_log(directory: LogDirectory, member: Log, now_ms: int) -> None:
    """Apply retention to one log and forget its idle producers. A failed rename takes the directory offline.

    A log that is being cleaned keeps its segments until that is done, as in Kafka.
    """
    if member.offline:
        return
    try:
        if directory.cleaning is not member and member not in directory.replacing:
            member.delete_old_segments(now_ms)
    except OSError as error:
        directory.fail(error)
        return
    member.producers.remove_expired(now_ms=now_ms, expiration_ms=member.ports.producer_expiration_ms)
