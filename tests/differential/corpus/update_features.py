"""UpdateFeatures 0: no feature is supported yet, by Kafka 2.7 neither."""

from barnabas.protocol.messages.update_features import FeatureUpdateKey
from tests.differential.controller_requests import update
from tests.differential.conversation import Conversation


def features_that_nobody_knows(talk: Conversation) -> None:
    for level in (1, 32_767, 0, -1):
        for allow_downgrade in (False, True):
            wanted = FeatureUpdateKey("unheard-of", level, allow_downgrade)
            talk.ask(f"level {level}, downgrade {allow_downgrade}", 0, update(wanted))


def names_that_are_odd(talk: Conversation) -> None:
    talk.ask("empty", 0, update(FeatureUpdateKey("", 1)))
    talk.ask("empty, deleted", 0, update(FeatureUpdateKey("", 0, allow_downgrade=True)))
    talk.ask("with blanks", 0, update(FeatureUpdateKey("a b/c", 1)))


def several_at_once(talk: Conversation) -> None:
    both = FeatureUpdateKey("one", 1), FeatureUpdateKey("two", 0, allow_downgrade=True)
    talk.ask("two", 0, update(*both))
    talk.ask("the same twice", 0, update(both[0], both[0]))
    talk.ask("the same name, another level", 0, update(both[0], FeatureUpdateKey("one", 2)))


def nothing_at_all(talk: Conversation) -> None:
    talk.ask("no update", 0, update())
    talk.ask("no time", 0, update(FeatureUpdateKey("one", 1), timeout_ms=0))
    talk.ask("a negative time", 0, update(FeatureUpdateKey("one", 1), timeout_ms=-1))
