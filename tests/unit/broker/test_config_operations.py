"""Changes of single settings: what they make, and which are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.error_code import ErrorCode
from broker.config_keys import TOPIC_KEYS
from broker.config_operations import Change, Operation, apply_changes, check_changes
from broker.config_resources import ResourceRefused

SET, DELETE, APPEND, SUBTRACT = Operation
THROTTLED = "leader.replication.throttled.replicas"


def after(present: dict[str, str], *changes: tuple[str, Operation, str | None]) -> dict[str, str]:
    wanted = [Change(*each) for each in changes]
    check_changes(wanted)
    return apply_changes(present, wanted, TOPIC_KEYS)


def test_a_key_is_set_and_deleted_and_the_others_stay() -> None:
    present = {"a": "1", "b": "2"}
    assert after(present, ("a", SET, "3"), ("c", SET, "4")) == {"a": "3", "b": "2", "c": "4"}
    assert after(present, ("a", DELETE, None)) == {"b": "2"}
    assert after(present, ("c", DELETE, "x")) == present
    assert present == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("text", "operation", "value", "then"),
    [
        ("0:1", APPEND, "1:1", "0:1,1:1"),
        ("0:1", APPEND, "0:1,1:1", "0:1,0:1,1:1"),
        ("", APPEND, "0:1", "0:1"),
        (None, APPEND, "0:1", "0:1"),
        ("0:1,1:1,0:1", SUBTRACT, "0:1", "1:1,0:1"),
        ("0:1,1:1,0:1", SUBTRACT, "0:1,0:1,0:1", "1:1"),
        ("0:1", SUBTRACT, "2:1", "0:1"),
        ("0:1", SUBTRACT, "0:1", ""),
        (None, SUBTRACT, "0:1", ""),
    ],
)
def test_lists_grow_and_shrink_by_elements(text: str | None, operation: Operation, value: str, then: str) -> None:
    present = {} if text is None else {THROTTLED: text}
    assert after(present, (THROTTLED, operation, value)) == {THROTTLED: then}


def test_a_list_that_is_not_set_is_its_default() -> None:
    assert after({}, ("cleanup.policy", APPEND, "compact")) == {"cleanup.policy": "delete,compact"}
    assert after({}, ("cleanup.policy", SUBTRACT, "delete")) == {"cleanup.policy": ""}


@pytest.mark.parametrize(
    "changes",
    [
        [("a", SET, "1"), ("a", DELETE, None)],
        [("a", SET, None)],
        [(THROTTLED, APPEND, None)],
        [("retention.ms", APPEND, "1")],
        [("retention.ms", SUBTRACT, "1")],
        [("no.such.key", APPEND, "1")],
        [("a", 4, "1")],
        [("a", -1, "1")],
    ],
)
def test_what_no_entity_takes_is_refused(changes: list[tuple[str, Operation, str | None]]) -> None:
    with pytest.raises(ResourceRefused) as refused:
        after({}, *changes)
    assert refused.value.error is ErrorCode.INVALID_REQUEST
    assert refused.value.message


ELEMENTS = st.lists(st.sampled_from(["0:1", "1:1", "2:1"]))


@given(ELEMENTS, ELEMENTS)
def test_what_was_appended_can_be_taken_away_again(present: list[str], more: list[str]) -> None:
    grown = after({THROTTLED: ",".join(present)}, (THROTTLED, APPEND, ",".join(more)))
    shrunk = after(grown, (THROTTLED, SUBTRACT, ",".join(more)))[THROTTLED]
    assert sorted(shrunk.split(",") if shrunk else []) == sorted(present)
