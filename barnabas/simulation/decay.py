"""The fault that damages what was stored: replicas rot, one machine's at a time, where another could mend them.

While bytes of a machine are damaged it counts as one that lost something (`Damage`): no other may lose what it needs.
It is seen to act by what brokers answer, and to end by `convergence`: a cluster with damage in it is not whole.
"""

import asyncio
import random
from collections.abc import Iterable
from typing import Final

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.faults import Damage
from barnabas.simulation.machine import Machine
from barnabas.simulation.moments import Moment
from barnabas.simulation.world import World
from replication.partition import Partition

_LEADERS: Final = 0.3
_MOST_AT_ONCE: Final = 3


class Decay:
    """Lets replicas of the load's topics rot."""

    def __init__(self, world: World, damage: Damage) -> None:
        self._world = world
        self._damage = damage

    async def rage(self, strikes: Iterable[Moment]) -> None:
        """Strike at these moments, from now on, where something may rot then."""
        loop = self._world.loop
        began_s = loop.now_s
        for at_s, _, chance in strikes:
            await asyncio.sleep(max(0.0, began_s + at_s - loop.now_s))
            self._strike(random.Random(chance))

    def _strike(self, chance: random.Random) -> None:
        world = self._world
        at, is_leader = chance.choice(list(world.invariants.watched)), chance.random() < _LEADERS
        replicas = self._in_sync(at)
        if replicas is None:
            return
        leader = next(part for machine, part in replicas if world.invariants.is_true_leader(machine, part))
        victims = [machine for machine, part in replicas if (part is leader) is is_leader]
        machine = chance.choice(victims or [replicas[0][0]])
        if not self._damage.may_rot(machine.broker_id):
            return
        below = min(part.log.high_watermark for _, part in replicas)
        count = sum(world.rot.strike(machine, at, chance, below=below) for _ in range(chance.randint(1, _MOST_AT_ONCE)))
        if count:
            self._damage.lost(machine.broker_id)
            world.tell(f"{at} rots on {machine.host}, in {count} places")
            world.acted["bit rot"] += 1

    def _in_sync(self, at: TopicPartition) -> list[tuple[Machine, Partition]] | None:
        """The replicas in sync, at least two, if all of them serve and have what is committed; None else."""
        invariants = self._world.invariants
        invariants.compare_logs()
        state, committed = invariants.state(at), invariants.committed.get(at)
        if state is None or committed is None or len(state.isr) < 2:
            return None
        found = [
            (machine, part)
            for machine, part in invariants.replicas()
            if part.topic_partition == at and machine.broker_id in state.isr and not part.is_offline
        ]
        is_led = any(invariants.is_true_leader(machine, part) for machine, part in found)
        hold_all = all(part.log.log_end_offset >= committed.end for _, part in found)
        return found if is_led and hold_all and len(found) == len(state.isr) else None
