"""What members of consumer groups did and were told: assignments, commits of offsets, and offsets read back.

Times and outcomes are those of `history`. What a member was given to read are polls (`Poll.group`), in sessions that
begin with each assignment.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.outcome import Outcome


@dataclass(slots=True, frozen=True)
class Assignment:
    """All that a member may read in a generation of its group, as it was told at `at`.

    `member` is the instance id of a static member, which comes back within a generation (KIP-345).
    """

    client: str
    group: str
    generation: int
    member: str
    partitions: tuple[TopicPartition, ...]
    at: int


@dataclass(slots=True)
class OffsetCommit:
    """Offsets that a client commits for a group, as a member of a generation (-1: outside of it).

    With a `transaction` they count if, and when, that is committed; `OK` then says that they were taken into it. With
    `asks_back` the client wants to go back to earlier offsets.
    """

    client: str
    group: str
    generation: int
    member: str
    offsets: dict[TopicPartition, int]
    invoked_at: int
    transaction: str | None = None
    asks_back: bool = False
    outcome: Outcome = Outcome.UNKNOWN
    completed_at: int | None = None
    error: str = ""

    def end(self, outcome: Outcome, now: int, error: str = "") -> None:
        """The client heard what became of it, or gave it up."""
        assert self.completed_at is None, f"{self} ends twice"
        self.outcome, self.completed_at, self.error = outcome, now, error


@dataclass(slots=True)
class OffsetRead:
    """The committed offsets that a client asked for: it was told `offsets`, and of no others of `partitions` any.

    It waits for transactions that decide (KIP-447). `final`: after all faults healed, when no client commits any more.
    """

    client: str
    group: str
    partitions: tuple[TopicPartition, ...]
    invoked_at: int
    final: bool = False
    outcome: Outcome = Outcome.UNKNOWN
    completed_at: int | None = None
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    error: str = ""

    def ok(self, offsets: Mapping[TopicPartition, int], now: int) -> None:
        assert self.completed_at is None, f"{self} ends twice"
        self.outcome, self.offsets, self.completed_at = Outcome.OK, dict(offsets), now

    def fail(self, error: str, now: int) -> None:
        """Nothing was told."""
        assert self.completed_at is None, f"{self} ends twice"
        self.outcome, self.error, self.completed_at = Outcome.FAIL, error, now


@dataclass(slots=True)
class GroupHistory:
    """All that members did, in the order in which each client did its own."""

    assignments: list[Assignment] = field(default_factory=list)
    commits: list[OffsetCommit] = field(default_factory=list)
    reads: list[OffsetRead] = field(default_factory=list)
    endings: dict[str, list[int]] = field(default_factory=dict)
    """When a group was forgotten of which nothing was left, neither members nor offsets."""

    def end(self, group: str, now: int) -> None:
        """A coordinator forgets the group now: who joins next is in a group of its own, of generation 1."""
        self.endings.setdefault(group, []).append(now)

    def ends_between(self, group: str, after: int, before: int) -> bool:
        """Whether one of two moments may belong to an earlier group of that name than the other."""
        return any(after <= at <= before for at in self.endings.get(group, ()))

    def assign(
        self,
        client: str,
        group: str,
        partitions: Iterable[TopicPartition],
        now: int,
        *,
        generation: int,
        member: str,
    ) -> None:
        """A member was told now what it may read."""
        self.assignments.append(Assignment(client, group, generation, member, tuple(partitions), now))

    def commit(
        self,
        client: str,
        group: str,
        offsets: Mapping[TopicPartition, int],
        now: int,
        *,
        generation: int,
        member: str,
        transaction: str | None = None,
        asks_back: bool = False,
    ) -> OffsetCommit:
        """A client commits now; close what is returned when the answer came."""
        made = OffsetCommit(client, group, generation, member, dict(offsets), now, transaction, asks_back)
        self.commits.append(made)
        return made

    def read(
        self, client: str, group: str, partitions: Iterable[TopicPartition], now: int, *, final: bool = False
    ) -> OffsetRead:
        """A client asks for committed offsets now; close what is returned when the answer came."""
        made = OffsetRead(client, group, tuple(partitions), now, final)
        self.reads.append(made)
        return made
