"""One broker of a world: its host, the disks under its log directories, and its process over several lives."""

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from barnabas.protocol.ids import TopicPartition
from tests.failover.world.disks import Disk
from tests.failover.world.network import Host
from tests.support.broker_process import BrokerProcess

SESSION_TIMEOUT_MS = 6_000
_PORT, _CONTROL_PORT = 9092, 9093
_SESSION = re.compile(r"session (0x[0-9a-f]+): connected \(new\)")
_GRACE_SECONDS = 40.0


class BrokerNode:
    """A broker that may be down. `settings` go over those that every broker of a world has; `disk` is its first."""

    def __init__(
        self,
        broker_id: int,
        host: Host,
        disks: Sequence[Disk],
        *,
        directory: Path,
        zookeeper: str,
        settings: Mapping[str, str],
    ) -> None:
        self.id = broker_id
        self.host = host
        self.disks = list(disks)
        self.disk = self.disks[0]
        self.control_port = host.port(_CONTROL_PORT)
        self._directory = directory
        port = host.port(_PORT)
        own = {
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "barnabas.control.listener": f"{host.address}:{self.control_port}",
            "log.dirs": ",".join(str(disk.path / "logs") for disk in self.disks),
            "broker.rack": f"rack-{broker_id}",
        }
        self.process = BrokerProcess(
            directory,
            zookeeper,
            {**own, **settings},
            broker_id=broker_id,
            host=host.address,
            port=port,
            log_directory=self.disk.path / "logs",
            wrapper=host.wrapper,
        )

    @property
    def ports(self) -> tuple[int, int]:
        """Where it listens: for everybody, and for its controller."""
        return self.process.port, self.control_port

    @property
    def is_running(self) -> bool:
        return self.process.is_started and self.process.exit_status is None

    def launch(self) -> None:
        """Start the process, on its disks, and wait for nothing."""
        for disk in self.disks:
            disk.mount()
        self.process.launch()

    def await_start(self) -> None:
        self.process.wait_for(self.process.started_line, seconds=60)

    def kill(self) -> None:
        self.process.kill()

    def stop(self) -> float:
        """SIGTERM, and the seconds until the process had ended. Fails on another status than 0."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait_for_end(seconds=_GRACE_SECONDS)
        assert status == 0, f"broker {self.id} ended with {status} after SIGTERM"
        return time.monotonic() - began

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    @property
    def is_paused(self) -> bool:
        """Whether the system holds the process stopped."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        return text[text.rindex(")") + 2] == "T"

    @property
    def session_id(self) -> int:
        """Of its newest session with ZooKeeper."""
        return int(_SESSION.findall(self.process.output_of_this_life)[-1], 16)

    def session_count(self) -> int:
        """How many sessions it has had in this life."""
        return len(_SESSION.findall(self.process.output_of_this_life))

    def log_bytes(self, topic: str) -> dict[int, bytes]:
        """What the segments of each partition hold, one behind the other."""
        found = {}
        for directory in (found for disk in self.disks for found in Path(disk.path, "logs").glob(f"{topic}-*")):
            number = directory.name.removeprefix(f"{topic}-")
            if number.isdecimal():
                found[int(number)] = b"".join(part.read_bytes() for part in sorted(directory.glob("*.log")))
        return found

    def disk_of(self, where: TopicPartition) -> Disk | None:
        """On which of its disks the partition lies."""
        name = f"{where.topic}-{where.partition}"
        return next((disk for disk in self.disks if Path(disk.path, "logs", name).is_dir()), None)

    def cpu_seconds(self) -> float:
        """What the process has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
