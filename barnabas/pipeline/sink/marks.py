"""What is written down of a batch that is written exactly once: each task's mark, and the driver's decision. Pure.

Both are committed offsets, as those are what a Kafka transaction can hold beside records: the mark of a task belongs to
the transaction with its rows, so that it is there if, and only if, they are. A task's group is named as its
transactional id is, and the driver has one of its own. The offset is the batch's number and 1, the metadata says the
rest. Offsets need a partition that exists; `PLACE` does wherever a group has a coordinator.
"""

import re
from dataclasses import dataclass
from typing import Final

from barnabas.protocol.ids import TopicPartition

PLACE: Final = TopicPartition("__consumer_offsets", 0)


class ReplayRefused(Exception):
    """A batch comes again, and not as it was written: going on would lose rows or write them twice."""


@dataclass(frozen=True, slots=True)
class RunName:
    """What writes: a streaming query, an application that numbers its batches, or one batch write.

    `number` is the batch's, None where the same batch never comes again. There is no slash in `run`, so that no two
    runs have a name in common.
    """

    prefix: str
    run: str
    number: int | None

    @property
    def group_id(self) -> str:
        """The group of the driver's decisions."""
        return f"{self.prefix}/{self.run}/driver"

    def transactional_id(self, task: int) -> str:
        """The id of the task's transactions, and the group of its marks."""
        return f"{self.prefix}/{self.run}/{task}"


@dataclass(frozen=True, slots=True)
class Mark:
    """A task has committed batch `number`: so many rows, with this sum of their checksums."""

    number: int
    rows: int
    checksum: int

    def metadata(self) -> str:
        return f"rows={self.rows} checksum={self.checksum:016x}"


@dataclass(frozen=True, slots=True)
class Decision:
    """The driver has begun to commit batch `number`, which `tasks` tasks wrote."""

    number: int
    tasks: int

    def metadata(self) -> str:
        return f"tasks={self.tasks}"


def read_mark(offset: int, metadata: str, *, group_id: str) -> Mark:
    """What `Mark` wrote down. Raises ReplayRefused for what is none."""
    found = re.fullmatch(r"rows=(\d+) checksum=([0-9a-f]{16})", metadata, re.ASCII)
    if found is None:
        raise _foreign(group_id, offset, metadata)
    return Mark(offset - 1, int(found[1]), int(found[2], 16))


def read_decision(offset: int, metadata: str, *, group_id: str) -> Decision:
    """What `Decision` wrote down. Raises ReplayRefused for what is none."""
    found = re.fullmatch(r"tasks=(\d+)", metadata, re.ASCII)
    if found is None:
        raise _foreign(group_id, offset, metadata)
    return Decision(offset - 1, int(found[1]))


def is_committed(mark: Mark | None, number: int, *, transactional_id: str) -> bool:
    """Whether the task with this mark has committed batch `number`. Raises ReplayRefused where it is further on."""
    if mark is None or mark.number < number:
        return False
    if mark.number > number:
        raise _behind(transactional_id, mark.number, number)
    return True


def check_same(mark: Mark, again: Mark, *, transactional_id: str) -> None:
    """Raises ReplayRefused where the rows of a committed batch are others when they come again."""
    if mark != again:
        raise ReplayRefused(
            f"{transactional_id} has committed batch {mark.number} with {mark.metadata()}, and now it comes with "
            f"{again.metadata()}: the query does not give the same rows again (random values, another division into "
            f"tasks, or a source that changed). {_START_ANEW}"
        )


def check_decision(decision: Decision | None, now: Decision, *, group_id: str) -> bool:
    """Whether batch `now` was decided on before. Raises ReplayRefused where it is not the same batch."""
    if decision is None or decision.number < now.number:
        return False
    if decision.number > now.number:
        raise _behind(group_id, decision.number, now.number)
    if decision.tasks != now.tasks:
        raise ReplayRefused(
            f"{group_id}: batch {now.number} was written by {decision.tasks} tasks, some of which may have been "
            f"committed, and comes again in {now.tasks}. Restart the query with the options that it had"
        )
    return True


def _behind(name: str, committed: int, now: int) -> ReplayRefused:
    return ReplayRefused(
        f"{name} has committed batch {committed}, and now batch {now} comes: the checkpoint is older than what is "
        f"written, or two applications use one name. {_START_ANEW}"
    )


def _foreign(group_id: str, offset: int, metadata: str) -> ReplayRefused:
    return ReplayRefused(
        f"group {group_id} has offset {offset} with {metadata!r} at {PLACE}, which this sink did not write; "
        "choose another transactionalIdPrefix"
    )


_START_ANEW: Final = "To start anew, see what the topics have, then take another checkpoint or transactionalIdPrefix"
