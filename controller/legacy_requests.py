"""What tools older than the APIs ask for: entries in /admin/reassign_partitions.  [P]

The znode lists partitions and the replicas that they shall have. An entry leaves it when the partition has moved, when
it cannot move, or when an administrator asked for something else by the API, which counts more; the znode goes with its
last entry. Where the znode changed in between, its watch has it read again, and what is found done then leaves.
"""

from collections.abc import Collection

from barnabas.protocol.ids import TopicPartition
from controller.events import Confirmed
from controller.office import Office, Procedure
from controller.state import AskedMoves
from zk_schema import paths
from zk_schema.ops import Delete, Op, Set, Written
from zk_schema.payloads import ReassignPartitions


def forget(office: Office, partitions: Collection[TopicPartition]) -> Procedure[None]:
    """Take these partitions out of the znode."""
    asked = office.state.asked_moves
    if asked is None or (asked.targets and not asked.targets.keys() & set(partitions)):
        return
    remaining = {at: target for at, target in asked.targets.items() if at not in partitions}
    path = paths.REASSIGN_PARTITIONS
    operation: Op = Delete(path, asked.version)
    if remaining:
        operation = Set(path, ReassignPartitions(remaining).encode(), asked.version)
    (reply,) = yield [office.fenced(operation, reason=f"{len(remaining)} entries stay in {path}")]
    if isinstance(reply, Confirmed):
        result = reply.results[-1]
        version = result.stat.version if isinstance(result, Written) else asked.version + 1
        office.state.asked_moves = AskedMoves(remaining, version) if remaining else None
