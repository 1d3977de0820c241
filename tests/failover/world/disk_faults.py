"""Faults of disks: one that fills up, one whose power is cut, one that is slow."""

import contextlib
import os
import time
from pathlib import Path

from tests.failover.load.history_file import now_us
from tests.failover.world.broker_node import BrokerNode
from tests.failover.world.disks import Ext4Image, free_bytes
from tests.failover.world.fault import BrokerFault, DidNotAct, DidNotHeal, Fault, Role, Scene, prove_serves

_BALLAST = "ballast"
_PAGE = 4096
_ROUGHLY = 1 << 20


class FillDisk(BrokerFault):
    """Something else takes all the room on the broker's disk; afterwards the room is there and the broker restarted."""

    needs_disk = ("memory", "ext4")

    @property
    def name(self) -> str:
        return f"full disk of the {self.role}"

    def start(self, scene: Scene) -> None:
        self._epoch = scene.world.view.broker_epoch(self.broker.id)
        self._ballast = Path(self.broker.disk.path, _BALLAST)
        path = self.broker.disk.path
        with self._ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            # The broker takes room as well: nearly all at once, and then until nothing is left.
            while (size_bytes := free_bytes(path) * 3 // 4) > _ROUGHLY:
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size_bytes)
            file.seek(0, os.SEEK_END)
            while True:
                file.write(bytes(_PAGE))
        self.moment_us = now_us()

    def prove_acted(self, scene: Scene) -> str:
        said = "the log directory is offline for good"
        if not scene.wait_until(lambda: said in self.broker.process.output_of_this_life, seconds=20):
            raise DidNotAct(f"broker {self.broker.id} writes on; {free_bytes(self.broker.disk.path)} bytes are free")
        return f"broker {self.broker.id} took its log directory offline"

    def stop(self, scene: Scene) -> None:
        self._ballast.unlink()
        if self.broker.is_running:
            with contextlib.suppress(AssertionError):
                self.broker.stop()
        self.broker.kill()
        self.broker.launch()

    def prove_healed(self, scene: Scene) -> str:
        if not scene.wait_until(
            lambda: scene.world.view.broker_epoch(self.broker.id) not in {None, self._epoch}, seconds=30
        ):
            raise DidNotHeal(f"broker {self.broker.id} is not registered anew")
        return f"{free_bytes(self.broker.disk.path)} bytes are free; {prove_serves(scene, self.broker)}"


class CutPower(Fault):
    """The power of some brokers goes: what their disks had not synced is gone, and so are their processes.

    They are started again when others have taken over, or `at_once`; without a role it is all of them.
    """

    needs_disk = ("ext4",)

    def __init__(self, role: Role | None, *, at_once: bool = False) -> None:
        self.role = role
        self.fails_over = role is not None and not at_once
        self._lost_bytes: dict[int, int] = {}

    @property
    def name(self) -> str:
        if self.role is None:
            return "power cut of all brokers"
        return f"power cut of the {self.role}" + ("" if self.fails_over else ", started again at once")

    def aim(self, scene: Scene) -> list[BrokerNode]:
        self._hit = list(scene.world.brokers.values()) if self.role is None else [scene.cast(self.role)]
        self.target = self._hit[0] if len(self._hit) == 1 else None
        return self._hit

    def start(self, scene: Scene) -> None:
        self._epochs = {broker.id: scene.world.view.broker_epoch(broker.id) for broker in self._hit}
        self.moment_us = now_us()
        # Stopped first: the power of a machine ends for its disk and its processors at one moment.
        for broker in self._hit:
            broker.pause()
        self._had = {broker.id: _written(broker, scene.topics) for broker in self._hit}
        for broker in self._hit:
            assert isinstance(broker.disk, Ext4Image)
            broker.disk.cut_power()
        for broker in self._hit:
            broker.kill()

    def prove_acted(self, scene: Scene) -> str:
        # `cut_power` has seen that no write goes through any more.
        for broker in self._hit:
            broker.disk.unmount()
            broker.disk.mount()
            self._lost_bytes[broker.id] = self._had[broker.id] - _written(broker, scene.topics)
        self.lost_bytes = sum(self._lost_bytes.values())
        return f"bytes of the logs that were not on the disk: {self._lost_bytes}"

    def stop(self, scene: Scene) -> None:
        for broker in self._hit:
            broker.launch()

    def prove_healed(self, scene: Scene) -> str:
        for broker in self._hit:
            known = {None, self._epochs[broker.id]}
            if not scene.wait_until(
                lambda known=known, broker_id=broker.id: scene.world.view.broker_epoch(broker_id) not in known,  # type: ignore[misc]
                seconds=30,
            ):
                raise DidNotHeal(f"broker {broker.id} is not registered anew")
        return "; ".join(prove_serves(scene, broker) for broker in self._hit)


class SlowDisk(BrokerFault):
    """The broker's log directory takes few bytes a second; others are as fast as before."""

    needs_disk = ("ext4",)
    fails_over = False

    def __init__(self, role: Role, *, bytes_a_second: int = 256 * 1024, seconds: float = 8.0) -> None:
        super().__init__(role)
        self._rate = bytes_a_second
        self.hold_seconds = seconds
        self._slowed = contextlib.ExitStack()

    @property
    def name(self) -> str:
        return f"slow disk of the {self.role}"

    def start(self, scene: Scene) -> None:
        disk = self.broker.disk
        assert isinstance(disk, Ext4Image)
        self._quick = sync_seconds(disk.path, self._rate)
        self.moment_us = now_us()
        self._slowed.enter_context(disk.slowed(bytes_a_second=self._rate, pids=[self.broker.process.pid, os.getpid()]))

    def prove_acted(self, scene: Scene) -> str:
        seconds = sync_seconds(self.broker.disk.path, self._rate)
        if seconds < 0.5 or seconds < 3 * self._quick:
            raise DidNotAct(f"{self._rate} bytes were synced in {seconds:.2f} s, before in {self._quick:.2f} s")
        return f"{self._rate} bytes are synced in {seconds:.2f} s, before in {self._quick:.2f} s"

    def stop(self, scene: Scene) -> None:
        self._slowed.close()

    def prove_healed(self, scene: Scene) -> str:
        tried: list[float] = []

        def is_quick() -> bool:
            tried.append(sync_seconds(self.broker.disk.path, self._rate))
            return tried[-1] < 0.5

        # The first may wait behind what the broker could not write meanwhile.
        if not scene.wait_until(is_quick, seconds=20):
            raise DidNotHeal(f"{self._rate} bytes are synced in {tried} s")
        return f"{self._rate} bytes are synced in {tried[-1]:.2f} s; {prove_serves(scene, self.broker)}"


def _written(broker: BrokerNode, topics: tuple[str, ...]) -> int:
    """Bytes in the broker's segments of these topics, as programs see them now."""
    return sum(len(log) for topic in topics for log in broker.log_bytes(topic).values())


def sync_seconds(directory: Path, size_bytes: int) -> float:
    """How long so many bytes take to that disk."""
    began = time.monotonic()
    path = directory / "probe"
    with path.open("wb") as file:
        file.write(os.urandom(size_bytes))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
    return time.monotonic() - began
