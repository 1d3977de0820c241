"""The outer end of `agent`: starts a world in namespaces of its own, or on loopback, and plays it."""

import json
import select
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from tests.failover.world import isolation
from tests.failover.world.drill import LoadPlan, Outcome
from tests.failover.world.verdict import Verdict
from tests.failover.world.world import WorldPlan

_START_SECONDS = 120.0
_PLAY_SECONDS = 300.0
_FINISH_SECONDS = 600.0
_END_SECONDS = 60.0


class PlayFailed(AssertionError):
    """What was asked of the world failed; the text is the traceback from there."""


class RemoteWorld:
    """A world under load, in another process; ends with its context."""

    def __init__(
        self,
        plan: WorldPlan,
        loads: Sequence[LoadPlan],
        *,
        replicas: int = 3,
        java_class_path: str | None = None,
        reads_along: bool = False,
    ) -> None:
        self.plan = plan
        self.log = plan.directory / "agent.log"
        self._broken: str | None = None
        self._document = {
            "world": {**_fields(plan), "directory": str(plan.directory)},
            "loads": [_fields(load) for load in loads],
            "replicas": replicas,
            "java_class_path": java_class_path,
            "reads_along": reads_along,
        }

    def play(self, name: str) -> Outcome:
        """Play one fault of the catalogue. After a failure the world is not what a next fault expects: it fails too."""
        return Outcome(**self._ask({"play": name}, _PLAY_SECONDS))

    def finish(self, readers: Sequence[str]) -> Verdict:
        """End the load and judge."""
        return Verdict(**self._ask({"finish": list(readers)}, _FINISH_SECONDS))

    def __enter__(self) -> Self:
        self.plan.directory.mkdir(parents=True, exist_ok=True)
        program = [sys.executable, "-m", "tests.failover.world.agent"]
        if self.plan.isolated:
            program = isolation.command(program, real_root=self.plan.disk == "ext4")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0, start_new_session=True
            )
        try:
            self._ask(self._document, _START_SECONDS)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _ask(self, command: dict[str, Any], seconds: float) -> dict[str, Any]:
        if self._broken is not None:
            raise PlayFailed(f"an earlier fault has broken the world: {self._broken}")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([self._process.stdout], [], [], seconds)
            part = self._process.stdout.read(1 << 16) if readable else b""
            if not part:
                self._broken = f"no answer to {command} within {seconds} s; see {self.log}"
                raise PlayFailed(f"{self._broken}\n{self.log.read_text()[-3000:]}")
            line += part
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            self._broken = f"{command}"
            raise PlayFailed(answer["failed"])
        return answer

    def _end(self) -> None:
        """The end of its input ends the agent, and that ends the world."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _fields(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}
