"""What takes the place of rules about writes to ZooKeeper whose outcome nobody told. Each gets the original."""

from typing import Any

from controller.actions import ReadState
from controller.partitions import _apply
from controller.state import StateRead
from tests.simulation.mutants.mutant import Rule


def take_leaderships_for_written(_original: Rule) -> Rule:
    """The state znode is read again for its version only."""

    def read_again(office: Any, doubtful: Any, changed: Any) -> Any:
        replies = yield [ReadState(at) for at in doubtful]
        for (at, wanted), reply in zip(doubtful.items(), replies, strict=True):
            version = 0 if reply is None else reply.version
            changed[at] = _apply(office, at, StateRead(wanted, version))
        return []

    return read_again


def take_in_sync_sets_for_written(original: Rule) -> Rule:
    """An in-sync set counts as written if only the znode is there."""

    def learn(office: Any, doubt: Any, read: Any, result: Any) -> Any:
        taken = StateRead(doubt.wanted, read.version)
        return (yield from original(office, doubt._replace(is_unknown=False), taken, result))

    return learn


def always_won(_original: Rule) -> Rule:
    """An election whose outcome is not known was won."""

    async def has_won(_self: Any, _term: Any) -> bool:
        return True

    return has_won
