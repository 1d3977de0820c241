"""Which protocol a group uses: one that all members know, chosen by vote. Pure."""

from collections.abc import Collection, Sequence


def choose_protocol(ballots: Collection[Sequence[str]]) -> str:
    """The protocol with the most votes. Each ballot is one member's protocols, the one it likes best first.

    A member votes for the first of its protocols that all members know; there is at least one member and one such
    protocol, because nobody is let in otherwise. Of two with as many votes the one voted for first wins.
    """
    assert ballots, "nobody votes"
    candidates = set.intersection(*(set(ballot) for ballot in ballots))
    assert candidates, f"no protocol is known to all of {ballots}"
    votes: dict[str, int] = {}
    for ballot in ballots:
        choice = next(protocol for protocol in ballot if protocol in candidates)
        votes[choice] = votes.get(choice, 0) + 1
    return max(votes, key=lambda protocol: votes[protocol])
