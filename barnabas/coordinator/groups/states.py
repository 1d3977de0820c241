"""The states of a group and the moves between them. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class GroupState(StrEnum):
    """As DescribeGroups and ListGroups name them."""

    EMPTY = "Empty"
    """Nobody is in it. It lasts while it has offsets, or somebody was told to come back with a member id."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members gather; those of the last generation may still commit."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The members know their generation and wait for what the leader assigns."""
    STABLE = "Stable"
    """Everybody has an assignment, and it stands in the log."""
    DEAD = "Dead"
    """Gone; also what a group that never was is described as."""


MOVES: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
"""State -> where it may go."""
