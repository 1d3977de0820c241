"""Every fault by a name, for command lines and tests."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tests.failover.world.disk_faults import CutPower, FillDisk, SlowDisk
from tests.failover.world.fault import Fault, Role
from tests.failover.world.network_faults import Direction, From, Isolate
from tests.failover.world.process_faults import (
    ExpireSession,
    Kill,
    KillAll,
    KillZooKeeperLeader,
    LoseZooKeeperQuorum,
    Pause,
    Terminate,
)

_LONGER_THAN_A_SESSION: Final = 8.0
_SHORTER_THAN_A_SESSION: Final = 2.0
# Longer than replica.lag.time.max.ms: whoever is behind for so long leaves the ISR.
_LONGER_THAN_THE_LAG: Final = 13.0

_CUTS: Final[Mapping[str, tuple[From, float]]] = {
    "": (From.OTHERS, _LONGER_THAN_A_SESSION),
    "-from-zookeeper": (From.ZOOKEEPERS, _LONGER_THAN_A_SESSION),
    "-from-brokers": (From.BROKERS, _LONGER_THAN_THE_LAG),
}

FAULTS: Final[Mapping[str, Callable[[], Fault]]] = {
    **{f"kill-{role}": partial(Kill, role) for role in Role},
    **{f"bounce-{role}": partial(Kill, role, at_once=True) for role in Role},
    "kill-leader-for-long": partial(Kill, Role.LEADER, down_seconds=_LONGER_THAN_THE_LAG),
    **{f"terminate-{role}": partial(Terminate, role) for role in Role},
    **{f"pause-{role}": partial(Pause, role, seconds=_LONGER_THAN_A_SESSION) for role in Role},
    **{f"pause-{role}-briefly": partial(Pause, role, seconds=_SHORTER_THAN_A_SESSION) for role in Role},
    **{f"expire-{role}": partial(ExpireSession, role) for role in Role},
    **{
        f"isolate-{role}{suffix}": partial(Isolate, role, cut_from, seconds=seconds)
        for role in Role
        for suffix, (cut_from, seconds) in _CUTS.items()
    },
    "leader-hears-nobody": partial(Isolate, Role.LEADER, From.OTHERS, Direction.TO, seconds=_LONGER_THAN_THE_LAG),
    "leader-reaches-nobody": partial(Isolate, Role.LEADER, From.OTHERS, Direction.FROM, seconds=_LONGER_THAN_A_SESSION),
    "leader-hears-no-broker": partial(Isolate, Role.LEADER, From.BROKERS, Direction.TO, seconds=_LONGER_THAN_THE_LAG),
    "leader-reaches-no-broker": partial(
        Isolate, Role.LEADER, From.BROKERS, Direction.FROM, seconds=_LONGER_THAN_THE_LAG
    ),
    "follower-reaches-no-broker": partial(
        Isolate, Role.FOLLOWER, From.BROKERS, Direction.FROM, seconds=_LONGER_THAN_THE_LAG
    ),
    "kill-zookeeper-leader": KillZooKeeperLeader,
    "lose-zookeeper-quorum": LoseZooKeeperQuorum,
    "kill-all": KillAll,
    "fill-disk-of-leader": partial(FillDisk, Role.LEADER),
    "fill-disk-of-follower": partial(FillDisk, Role.FOLLOWER),
    **{f"cut-power-of-{role}": partial(CutPower, role) for role in Role},
    **{f"cut-power-of-{role}-at-once": partial(CutPower, role, at_once=True) for role in Role},
    "cut-power-of-all": partial(CutPower, None),
    "slow-disk-of-leader": partial(SlowDisk, Role.LEADER),
    "slow-disk-of-follower": partial(SlowDisk, Role.FOLLOWER),
}


def names(*, network: bool, disk: str) -> list[str]:
    """The faults that a world with these can play."""
    made = {name: make() for name, make in FAULTS.items()}
    return [
        name
        for name, fault in made.items()
        if (network or not fault.needs_network) and (not fault.needs_disk or disk in fault.needs_disk)
    ]
