"""Which broker coordinates a group or a transactional id: asked for once, remembered until it proves to be another.

`ask` sends one request; who wants it tried again wraps it in `Cluster.patiently`. The error codes of an answer are the
caller's, who names them so that an answer of a broker that coordinates no more is not believed a second time.
"""

from collections.abc import Callable, Hashable, Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, raise_for
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages import find_coordinator
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.schema import Api

_ELSEWHERE: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class CoordinatorKind(IntEnum):
    """What is coordinated (KIP-98); the numbers travel."""

    GROUP = 0
    TRANSACTION = 1


class OffsetAndMetadata(NamedTuple):
    """The next offset to read in a partition, the leader epoch of the last record read (-1: unknown), a note."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class GroupMetadata(NamedTuple):
    """Who commits for a group; a generation of -1 with an empty member id stands outside of it (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Coordinators:
    """The coordinators that a `Cluster` knows of."""

    def __init__(self, cluster: Cluster, *, lane: Hashable = None) -> None:
        """Requests travel in a lane of their own where one is named (see cluster.py): joining a group waits long."""
        self._cluster = cluster
        self._lane = lane
        self._known: dict[tuple[CoordinatorKind, str], int] = {}

    async def find(self, kind: CoordinatorKind, key: str) -> int:
        """The node id of a coordinator, from memory where it is known. Raises ClientError; asks once."""
        known = self._known.get((kind, key))
        if known is not None:
            return known
        least = 0 if kind is CoordinatorKind.GROUP else 1
        request = FindCoordinatorRequest(key, kind)
        response = await self._cluster.ask_any(find_coordinator.API, request, least=least)
        raise_for(response.error_code, response.error_message or None, context=_named(kind, key))
        self._known[kind, key] = response.node_id
        return int(response.node_id)

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        """The one that is known proved to be the wrong one."""
        self._known.pop((kind, key), None)

    async def ask(
        self,
        kind: CoordinatorKind,
        key: str,
        api: Api,
        request: object,
        *,
        codes: Callable[[Any], Iterable[int]],
        least: int = 0,
        most: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Send a request to a coordinator, once, and return its answer.

        `codes` gives the error codes of an answer: where one says that the coordinator is another, it is looked for
        next time. Raises ClientError.
        """
        node_id = await self.find(kind, key)
        patience = self._cluster.options.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            connection = await self._cluster.connection(node_id, lane=self._lane)
            response = await connection.request(api, request, timeout_ms=patience, least=least, most=most)
        except ClientError as error:
            if error.retriable:
                self.forget(kind, key)
            raise
        if any(code in _ELSEWHERE for code in codes(response)):
            self.forget(kind, key)
        return response


def _named(kind: CoordinatorKind, key: str) -> str:
    return f"group {key}" if kind is CoordinatorKind.GROUP else f"transactional id {key}"
