"""Who leads what, as ZooKeeper has it: read by a session of the harness that outlives every fault."""

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from barnabas.protocol.ids import TopicPartition

_SESSION_SECONDS = 60.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Led:
    """The state of a partition."""

    leader: int
    leader_epoch: int
    isr: frozenset[int]


class ClusterView:
    """Reads the tree; every call may wait while no ZooKeeper answers, and fails after its patience."""

    def __init__(self, connect_string: str) -> None:
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)
        self._client = KazooClient(
            hosts=connect_string,
            timeout=_SESSION_SECONDS,
            connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 0.5},
            command_retry={"max_tries": -1, "delay": 0.1, "max_delay": 0.5},
        )
        self._client.start(timeout=_SESSION_SECONDS)

    def close(self) -> None:
        with contextlib.suppress(KazooException, KazooTimeoutError):
            self._client.stop()
            self._client.close()

    def controller(self) -> int | None:
        """The broker that is registered as the controller."""
        text = self._read("/controller")
        return None if text is None else int(json.loads(text)["brokerid"])

    def brokers(self) -> set[int]:
        """Those that are registered."""
        return {int(name) for name in self._client.get_children("/brokers/ids")}

    def broker_epoch(self, broker_id: int) -> int | None:
        """The zxid at which its registration was made."""
        status = self._client.exists(f"/brokers/ids/{broker_id}")
        return None if status is None else int(status.czxid)

    def partitions(self, topics: Iterable[str]) -> dict[TopicPartition, Led]:
        """All partitions of these topics that have a state."""
        found = {}
        for topic in topics:
            text = self._read(f"/brokers/topics/{topic}")
            numbers = [] if text is None else sorted(int(number) for number in json.loads(text)["partitions"])
            asked = {
                number: self._client.get_async(f"/brokers/topics/{topic}/partitions/{number}/state")
                for number in numbers
            }
            for number, answer in asked.items():
                with contextlib.suppress(NoNodeError):
                    state = json.loads(answer.get()[0])
                    found[TopicPartition(topic, number)] = Led(
                        state["leader"], state["leader_epoch"], frozenset(state["isr"])
                    )
        return found

    def led_by(self, broker_id: int, topics: Iterable[str]) -> list[TopicPartition]:
        """What it leads of these topics."""
        return [where for where, led in self.partitions(topics).items() if led.leader == broker_id]

    def wait_until(self, holds: Callable[[], bool], what: str, *, seconds: float) -> float:
        """The seconds until it held; fails with `what` when it does not in time."""
        began = time.monotonic()
        while True:
            with contextlib.suppress(KazooException, KazooTimeoutError):
                if holds():
                    return time.monotonic() - began
            assert time.monotonic() - began < seconds, f"not within {seconds} s: {what}"
            time.sleep(_POLL_SECONDS)

    def await_full_isr(self, topics: Iterable[str], replicas: int, *, seconds: float) -> float:
        """The seconds until every partition has a leader and all its replicas in the ISR."""
        names = list(topics)

        def is_full() -> bool:
            states = self.partitions(names)
            return bool(states) and all(len(led.isr) == replicas and led.leader >= 0 for led in states.values())

        try:
            return self.wait_until(is_full, f"full ISR of {names}", seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.partitions(names)}") from None

    def _read(self, path: str) -> bytes | None:
        try:
            data: bytes = self._client.get(path)[0]
        except NoNodeError:
            return None
        return data
