"""Which commands a broker obeys: the comparison of controller epoch and broker epoch.  [P]

A controller that was replaced has a lower controller epoch than one the broker has heard of. A command that was meant
for an earlier registration of this broker carries a lower broker epoch (the czxid of its znode, KIP-380); a higher one
is of a registration that this broker does not know of yet and is obeyed, as is -1, which names none. The epochs of the
partitions themselves are compared by the replica that they concern.
"""

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, ControllerEpoch
from controller.commands import UNKNOWN_BROKER_EPOCH, Command


def decide_fence(
    *, known_controller_epoch: ControllerEpoch, own_broker_epoch: BrokerEpoch, command: Command
) -> ErrorCode:
    """NONE when the command is to be obeyed; the caller then remembers the command's controller epoch."""
    if command.controller_epoch < known_controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    if UNKNOWN_BROKER_EPOCH != command.broker_epoch < own_broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE
