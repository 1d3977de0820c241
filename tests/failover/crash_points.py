"""The crash points of storage on an ext4 whose power is cut by an ioctl: `python -m tests.failover.crash_points`.

To be run by `isolation.command`, as real root. Each point has the file system for itself: it is emptied, the scenario
is prepared and acts until its nth change, before or after which the power goes; then the journal is replayed, and the
scenario checks what is left. Without `--points` all are played.
"""

import argparse
import asyncio
import logging
import random
import shutil
import sys
from pathlib import Path

from barnabas.simulation.disk import Crashed
from tests.failover.world.disks import Ext4Image
from tests.support.crash_points import Change, CrashPoint
from tests.support.cutting_disk import CuttingDisk
from tests.unit.storage.crash_scenarios import SCENARIOS
from tests.unit.storage.log_scenario import LogScenario

_IMAGE_BYTES = 64 << 20


def main() -> int:
    """Play them; prints one line a scenario and one for each point that does not recover."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--points", type=int, default=None)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    image = Ext4Image(options.directory / "disk", image=options.directory / "image", size_bytes=_IMAGE_BYTES)
    image.mount()
    try:
        return _play_all(image, options.points, random.Random(options.seed))
    finally:
        image.unmount()


def _play_all(image: Ext4Image, count: int | None, chance: random.Random) -> int:
    points: list[tuple[type[LogScenario], CrashPoint]] = []
    for scenario in SCENARIOS:
        changes = _changes_of(scenario, image)
        print(f"{scenario.__name__}: {len(changes)} changes")
        points += [
            (scenario, CrashPoint(change, moment, "power")) for change in changes for moment in ("before", "after")
        ]
    chosen = points if count is None else chance.sample(points, min(count, len(points)))
    failures = 0
    for scenario, point in chosen:
        try:
            _play(scenario, point, image)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next point is played
            failures += 1
            print(f"{scenario.__name__}: {point}: {error!r}")
    print(f"{len(chosen)} of {len(points)} crash points, {failures} did not recover")
    return 1 if failures else 0


def _emptied(image: Ext4Image) -> str:
    root = image.path / "data"
    shutil.rmtree(root, ignore_errors=True)
    disk = CuttingDisk()
    disk.make_directory(str(root))
    disk.fsync_directory(str(image.path))
    return str(root)


def _changes_of(scenario: type[LogScenario], image: Ext4Image) -> list[Change]:
    made, disk = scenario(), CuttingDisk()
    made.root = _emptied(image)

    async def play() -> int:
        await made.prepare(disk)
        first = len(disk.changes)
        await made.act()
        return first

    first = asyncio.run(play())
    disk.kill()
    return [Change(number, *change) for number, change in enumerate(disk.changes[first:])]


def _play(scenario: type[LogScenario], point: CrashPoint, image: Ext4Image) -> None:
    made, disk = scenario(), CuttingDisk(image.cut_power)
    made.root = _emptied(image)

    async def play() -> None:
        await made.prepare(disk)
        disk.arm(point.change.number, after=point.moment == "after")
        try:
            await made.act()
        except Crashed:
            return
        raise AssertionError("no crash came")

    asyncio.run(play())
    disk.kill()
    image.unmount()
    image.mount()
    disk.restart()
    try:
        asyncio.run(made.check(disk, point))
    finally:
        disk.kill()


if __name__ == "__main__":
    sys.exit(main())
