"""Kafka 2.7.2, asked again, gives the answers that are kept: so they are its own, and only what must be is replaced."""

import pytest

from tests.differential.answers import load
from tests.differential.catalogue import GROUPS, play
from tests.differential.conversation import Server
from tests.differential.differences import differences, report


@pytest.mark.java
@pytest.mark.parametrize("group", GROUPS)
def test_kafka_answers_as_it_did_when_its_answers_were_kept(group: str, kafka: Server) -> None:
    found = list(differences(group, load(group), play(group, kafka).answers))
    if found:
        pytest.fail(report(found), pytrace=False)
