"""Barnabas answers the corpus as Kafka 2.7.2 did, but for the differences that differences.toml permits."""

from collections.abc import Callable

import pytest

from barnabas.protocol.ids import ApiKey
from tests.differential.answers import load
from tests.differential.catalogue import ALL_GROUPS, Played
from tests.differential.differences import differences, read_permitted, report

pytestmark = [pytest.mark.processes, pytest.mark.xdist_group("differential")]


@pytest.mark.parametrize("group", ALL_GROUPS)
def test_barnabas_answers_as_kafka_does(group: str, barnabas_answers: Callable[[str], Played]) -> None:
    permitted = read_permitted()
    found = [
        one
        for one in differences(group, load(group), barnabas_answers(group).answers)
        if not any(entry.covers(one) for entry in permitted)
    ]
    if found:
        pytest.fail(report(found), pytrace=False)


def test_every_permitted_difference_still_occurs(barnabas_answers: Callable[[str], Played]) -> None:
    permitted = read_permitted()
    for group in ALL_GROUPS:
        for one in differences(group, load(group), barnabas_answers(group).answers):
            for entry in permitted:
                entry.covers(one)
    stale = [f"{entry.reason}: {pattern}" for entry in permitted for pattern in entry.stale()]
    assert not stale, "\n".join(stale)


def test_the_corpus_asks_every_version_that_barnabas_advertises(barnabas_answers: Callable[[str], Played]) -> None:
    answers = barnabas_answers("api_versions").answers
    answer = answers["every_version_is_answered: version 0"]
    assert isinstance(answer, dict)
    table = answer["api_keys"]
    assert isinstance(table, dict)
    advertised = {
        (int(key), version)
        for key, versions in table.items()
        if isinstance(versions, dict)
        for version in range(int(str(versions["min_version"])), int(str(versions["max_version"])) + 1)
    }
    asked = {pair for group in ALL_GROUPS for pair in barnabas_answers(group).asked}
    missing = sorted(f"{ApiKey(key).name} version {version}" for key, version in advertised - asked)
    assert len(advertised) > 60
    assert not missing, ", ".join(missing)
