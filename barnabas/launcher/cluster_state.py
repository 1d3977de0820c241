"""What a local cluster remembers between commands: `cluster.json` in its data directory.

It says which ports belong to whom and which process was started last for each; whether that process still runs is asked
of the system. Written before anybody waits for a process, so that `down` finds what an interrupted `up` started.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from barnabas.launcher.processes import ProcessIdentity, is_alive
from barnabas.runtime.disk import SystemDisk

STATE_FILE: Final = "cluster.json"
_VERSION: Final = 1


class StateUnreadable(Exception):
    """cluster.json is not what this program writes."""


@dataclass(slots=True)
class Member:
    """A process of the cluster and the port it listens on; port 0 is not chosen yet."""

    port: int
    process: ProcessIdentity | None = None

    @property
    def is_alive(self) -> bool:
        return self.process is not None and is_alive(self.process)

    @property
    def pid(self) -> int | None:
        """The process's pid while it runs."""
        return self.process.pid if self.process is not None and self.is_alive else None


@dataclass(slots=True)
class ClusterState:
    """The members of one local cluster; `brokers` by id."""

    host: str
    zookeeper: Member
    brokers: dict[int, Member] = field(default_factory=dict)

    @property
    def is_running(self) -> bool:
        """Whether any process of it runs."""
        return self.zookeeper.is_alive or any(member.is_alive for member in self.brokers.values())

    def save(self, directory: Path) -> None:
        document = {
            "version": _VERSION,
            "host": self.host,
            "zookeeper": _member_json(self.zookeeper),
            "brokers": {str(broker_id): _member_json(self.brokers[broker_id]) for broker_id in sorted(self.brokers)},
        }
        text = json.dumps(document, indent=2) + "\n"
        SystemDisk().write_durably(str(directory / STATE_FILE), text.encode())


def load_state(directory: Path) -> ClusterState | None:
    """The state that `directory` holds, None where it holds none.

    Raises:
        StateUnreadable: there is something else.
    """
    path = directory / STATE_FILE
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise StateUnreadable(f"{path} is of version {document['version']!r}; this program knows {_VERSION}")
        brokers = {int(broker_id): _member(member) for broker_id, member in document["brokers"].items()}
        return ClusterState(str(document["host"]), _member(document["zookeeper"]), brokers)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateUnreadable(f"{path} cannot be read ({type(error).__name__}: {error})") from error


def _member_json(member: Member) -> dict[str, Any]:
    process = member.process
    return {
        "port": member.port,
        "process": None
        if process is None
        else {"pid": process.pid, "start_ticks": process.start_ticks, "boot_id": process.boot_id},
    }


def _member(json_object: dict[str, Any]) -> Member:
    process = json_object["process"]
    return Member(
        int(json_object["port"]),
        None
        if process is None
        else ProcessIdentity(int(process["pid"]), int(process["start_ticks"]), str(process["boot_id"])),
    )
