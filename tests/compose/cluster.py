"""The composed cluster: what a person would do to it with `docker compose` and `docker`."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from testcontainers.compose import DockerCompose

T = TypeVar("T")


class ComposedCluster:
    """Three ZooKeepers and three brokers in containers. A broker is named by its number."""

    def __init__(self, root: Path, settings: Path, ports: list[int], *, project: str) -> None:
        self.ports = ports
        self.project = project
        self._compose = DockerCompose(str(root), build=True, wait=True, env_file=str(settings))

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self) -> None:
        """Build the image, start everything, and return when all are healthy."""
        self._compose.start()

    def remove(self) -> None:
        """Stop everything and remove its volumes."""
        self._compose.stop(down=True)

    def barnabas(self, number: int, *arguments: str) -> str:
        """Run the command in a broker's container; what it printed."""
        return self.run(number, "barnabas", *arguments)

    def run(self, number: int, *command: str) -> str:
        """Run a program in a broker's container; what it printed."""
        return self._command("exec", "--no-TTY", f"broker-{number}", *command)

    def compose(self, *arguments: str) -> str:
        """`docker compose ...` of this project."""
        return self._command(*arguments)

    def docker(self, *arguments: str, number: int) -> str:
        """`docker ... CONTAINER` with the container of a broker."""
        return _run(["docker", *arguments, self.container(number)])

    def container(self, number: int) -> str:
        """The id of a broker's container, also when it does not run."""
        return self._command("ps", "--all", "--quiet", f"broker-{number}").strip()

    def state(self, number: int) -> dict[str, Any]:
        """What the engine says of a broker's container."""
        state: dict[str, Any] = json.loads(_run(["docker", "inspect", self.container(number)]))[0]["State"]
        return state

    def leader(self, topic: str, partition: int = 0, *, not_asking: int | None = None) -> int:
        """Who leads a partition, as a broker that answers says it; -1 for nobody."""
        leader = self._described(topic, not_asking)["partition_list"][partition]["leader"]
        return -1 if leader is None else int(leader)

    def isr(self, topic: str, partition: int = 0) -> set[int]:
        return set(self._described(topic)["partition_list"][partition]["isr"])

    def _described(self, topic: str, not_asking: int | None = None) -> dict[str, Any]:
        for number in (1, 2, 3):
            if number != not_asking and self.state(number)["Status"] == "running":
                try:
                    printed = self.barnabas(number, "topics", "describe", topic, "-o", "json", "--timeout", "5")
                except subprocess.CalledProcessError:
                    continue
                found: dict[str, Any] = json.loads(printed)[0]
                return found
        raise AssertionError("no broker answers")

    def _command(self, *arguments: str) -> str:
        return _run([*self._compose.docker_compose_command(), *arguments], cwd=str(self._compose.context))


def until(what: str, ask: Callable[[], T], *, timeout_s: float = 60) -> T:
    """Ask until the answer is true; at most `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s:g} s; last: {answer!r}"
        time.sleep(0.2)


def _run(command: list[str], cwd: str | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, check=False, text=True, timeout=200)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return done.stdout
