"""Random walks of the small model: each seed draws its own weight for every action (a swarm), then acts.

Uniform walks miss the rarer of the known bugs: what they need is many of one action and none of another. A seed is
enough to walk the same way again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from barnabas.simulation.replica_model import ReplicaModel, Violation

STEPS: Final = 300

# Action -> the weights to draw from. What every other action needs is never without weight.
WEIGHTS: Final = {
    "append": (1, 2, 4),
    "exchange": (0, 2, 4, 8, 16),
    "send": (0, 0, 1, 4),
    "deliver": (1, 4, 8),
    "repeat": (0, 0, 0, 1),
    "drop": (0, 0, 1),
    "hear": (1, 2, 4, 8),
    "learn": (1, 2, 4),
    "look": (1, 2, 4),
    "move": (0, 0, 1, 2),
    "prefer": (0, 0, 1, 2),
    "tell": (1, 2, 4),
    "take_over": (0, 0, 1),
    "check_lag": (0, 1, 2, 4),
    "tick": (0, 1, 2),
    "sync": (0, 0, 1),
    "checkpoint": (0, 0, 1, 2),
    "crash": (0, 0, 1, 2),
    "cut_power": (0, 0, 1, 2),
    "restart": (1, 2, 4),
    "expire": (0, 0, 1, 2),
    "register": (1, 2, 4),
}
_MOST_B: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class Found:
    """A walk that broke an invariant: `seed` walks it again."""

    seed: int
    step: int
    what: str


def walk(seed: int, *, steps: int = STEPS, trace: Callable[[str], None] | None = None) -> Found | None:
    """Act until the steps are done or an invariant does not hold; `trace` gets a line for each action."""
    random = Random(seed)
    model = ReplicaModel(
        min_in_sync=random.choice((1, 2, 2)),
        holds_below_min_isr=random.random() < 0.8,
        victim=random.randrange(3),
    )
    actions = [getattr(model, name) for name, weights in WEIGHTS.items() for _ in range(random.choice(weights))]
    draw, count, brokers, check = random.random, len(actions), len(model.ids), model.check
    for step in range(steps):
        action, a, b = actions[int(draw() * count)], int(draw() * brokers), int(draw() * _MOST_B)
        try:
            action(a, b)
            check()
        except Violation as violation:
            return Found(seed, step, str(violation))
        finally:
            if trace is not None:
                trace(f"{step} {action.__name__} {a} {b}: {describe(model)}")
    return None


def describe(model: ReplicaModel) -> str:
    """Where the model stands, in one line: what ZooKeeper says, then each replica."""
    present, brokers = model.leadership, {broker: each.epoch for broker, each in model.state.brokers.items()}
    parts = [f"leader {present.leader} epoch {present.leader_epoch} isr {present.isr}; known {brokers}"]
    for each in model.replicas:
        role = "leads" if each.leadership is not None else f"follows {each.leader_id}"
        life = "" if each.is_alive else " dead"
        entries = [tuple(entry) for entry in each.epochs.entries]
        parts.append(f"{each.id}{life} {role} in {each.leader_epoch}, hw {each.high_watermark}, {each.log} {entries}")
    return "; ".join(parts)
