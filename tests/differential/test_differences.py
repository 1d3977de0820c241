"""The corpus and the comparison by themselves, without a server."""

import json

import pytest

from tests.differential.answers import layout, load
from tests.differential.catalogue import ALL_GROUPS, THREE_BROKER_GROUPS, scenarios
from tests.differential.differences import ABSENT, Difference, Permitted, differences, read_permitted, report
from tests.differential.normalise import Value

REQUESTS_AT_LEAST = 400
OF_THREE_AT_LEAST = 400
PERMITTED_AT_MOST = 20


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    assert sum(len(load(group)) for group in ALL_GROUPS) >= REQUESTS_AT_LEAST
    assert sum(len(load(group)) for group in THREE_BROKER_GROUPS) >= OF_THREE_AT_LEAST


@pytest.mark.parametrize("group", ALL_GROUPS)
def test_every_scenario_has_answers_and_every_answer_a_scenario(group: str) -> None:
    assert {name.split(":")[0] for name in load(group)} == {scenario.name for scenario in scenarios(group)}


def test_few_differences_are_permitted_and_each_has_a_reason() -> None:
    permitted = read_permitted()
    assert len(permitted) <= PERMITTED_AT_MOST
    assert all(len(entry.reason) > 20 for entry in permitted)


def test_equal_answers_do_not_differ() -> None:
    answers: dict[str, Value] = {"a: b": {"x": [1, {"y": None}], "z": {}}}
    assert list(differences("group", answers, json.loads(json.dumps(answers)))) == []


@pytest.mark.parametrize(
    ("kafka", "barnabas", "path"),
    [
        ({"x": 1}, {"x": 2}, "x"),
        ({"x": None}, {"x": ""}, "x"),
        ({"x": {"y": [1, 2]}}, {"x": {"y": [1, 3]}}, "x.y.1"),
        ({"x": 1}, {}, "x"),
        ({"x": 1}, {"x": 1, "y": 2}, "y"),
        ({"x": []}, {"x": [5]}, "x"),
        ("connection closed", {"x": 1}, "answer"),
        ("connection closed", "no answer", "answer"),
    ],
)
def test_a_differing_leaf_is_found_at_its_path(kafka: Value, barnabas: Value, path: str) -> None:
    assert path in [one.path for one in differences("group", {"s: r": kafka}, {"s: r": barnabas})]


def test_missing_and_additional_answers_are_differences() -> None:
    found = list(differences("group", {"s: a": {"x": 1}}, {"s: b": {"x": 1}}))
    assert [(one.request, one.kafka, one.barnabas) for one in found] == [
        ("group/s: a", "a message", ABSENT),
        ("group/s: b", ABSENT, "a message"),
    ]


def test_a_permitted_difference_covers_what_it_names_and_nothing_else() -> None:
    entry = Permitted("reason", ["g/s: *"], ["x.*.code"], [43])
    assert entry.covers(Difference("g/s: one", "x.topic.0.code", 0, 43))
    assert not entry.covers(Difference("g/s: one", "x.topic.0.code", 0, 35))
    assert not entry.covers(Difference("g/s: one", "x.topic.0.offset", 0, 43))
    assert not entry.covers(Difference("g/t: one", "x.topic.0.code", 0, 43))
    assert entry.stale() == []


def test_a_pattern_that_covers_nothing_is_stale() -> None:
    entry = Permitted("reason", ["g/s: *", "g/t: *"], ["x"], None)
    assert entry.stale() == ["g/s: *", "g/t: *", "x"]
    entry.covers(Difference("g/s: one", "x", 0, 1))
    assert entry.stale() == ["g/t: *"]


def test_the_report_names_each_request_once() -> None:
    found = [Difference("g/s: one", f"x.{number}", number, None) for number in range(6)]
    lines = report(found).splitlines()
    assert lines[:3] == ["6 differences in 1 answers", "g/s: one", "    x.0: Kafka 0, Barnabas None"]
    assert lines[-1] == "    and 2 more"


def test_the_layout_is_json_that_says_the_same() -> None:
    value: Value = {"long": ["x" * 50, "y" * 90, {"a": 1}], "short": {"b": [1, 2, None, True]}, "empty": []}
    assert json.loads(layout(value)) == value
    assert max(map(len, layout(value).splitlines())) <= 120
