"""How a local cluster is at one moment, as values, and as the JSON that `barnabas status` prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barnabas.launcher.broker_process import log_directory
from barnabas.launcher.sockets import address, reachable


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """A member as it is: `state` is running, starting (it does not answer yet) or stopped."""

    host: str
    port: int
    pid: int | None
    state: str
    log_file: Path

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "host": self.host,
            "port": self.port,
            "pid": self.pid,
            "state": self.state,
            "log_file": str(self.log_file),
        }


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """All members, brokers by id; `registered_controller` is the broker that ZooKeeper names, None for none."""

    directory: Path
    zookeeper: ProcessStatus
    brokers: Mapping[int, ProcessStatus]
    registered_controller: int | None

    @property
    def controller(self) -> int | None:
        """Its broker's id, None where there is none or nobody can tell.

        ZooKeeper names a broker that was killed until its session has expired: such a one controls nothing.
        """
        broker = self.brokers.get(-1 if self.registered_controller is None else self.registered_controller)
        return None if broker is None or broker.state == "stopped" else self.registered_controller

    @property
    def bootstrap_servers(self) -> str:
        """Where clients start, the running brokers only."""
        running = [broker for broker in self.brokers.values() if broker.state == "running"]
        return ",".join(address(reachable(broker.host), broker.port) for broker in running)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "data": str(self.directory),
            "bootstrap_servers": self.bootstrap_servers,
            "controller": self.controller,
            "zookeeper": {
                "address": address(self.zookeeper.host, self.zookeeper.port),
                **self.zookeeper.to_json(),
            },
            "brokers": [
                {
                    "id": broker_id,
                    **broker.to_json(),
                    "log_dirs": [str(log_directory(self.directory, broker_id))],
                    "is_controller": broker_id == self.controller,
                }
                for broker_id, broker in self.brokers.items()
            ],
        }
