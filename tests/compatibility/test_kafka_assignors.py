"""Our assignors beside those of Kafka 2.7.2's Java client, on drawn groups; what goes in and out travels as bytes."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from barnabas.client.assignors.assignor import Assignment, Assignor
from barnabas.client.assignors.range_assignor import RangeAssignor
from barnabas.client.assignors.round_robin_assignor import RoundRobinAssignor
from barnabas.client.assignors.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
from barnabas.client.group_protocol import Subscription, decode_assignment, encode_subscription, wanted_topics
from tests.support.java import compile_java, run_java
from tests.support.kafka_jars import CLIENT_JARS, JarsNotAvailable, class_path

pytestmark = pytest.mark.java

SOURCE = Path(__file__).parent / "java" / "AssignorRun.java"
GROUPS = 150


@dataclass
class Group:
    """The topics that are there and who takes part."""

    topics: Mapping[str, int]
    members: Mapping[str, Subscription]


def draw_group(dice: random.Random, *, alike: bool = False) -> Group:
    topics = {f"t{index}": dice.randint(1, 9) for index in range(dice.randint(1, 4))}
    names = [*topics, "missing"]
    wanted = tuple(dice.sample(names, dice.randint(1, len(names))))
    members = {
        f"m{dice.randrange(10**6)}": Subscription(
            wanted if alike else tuple(dice.sample(names, dice.randint(1, len(names)))),
            group_instance_id=f"i{dice.randrange(10**6)}" if dice.random() < 0.3 else None,
        )
        for _ in range(dice.randint(1, 7))
    }
    return Group(topics, members)


def next_generation(dice: random.Random, group: Group, assignment: Assignment, assignor: Assignor) -> Group:
    """Some leave, some join, the others have what they were given."""
    stay = {member_id: each for member_id, each in group.members.items() if dice.random() < 0.8}
    members = {
        member_id: replace(
            each,
            owned=tuple(assignment[member_id]) if assignor.is_cooperative else (),
            user_data=assignor.user_data(assignment[member_id], 7),
            generation_id=7,
        )
        for member_id, each in stay.items()
    }
    wanted = next(iter(group.members.values())).topics
    for _ in range(dice.randint(0 if members else 1, 3)):
        members[f"n{dice.randrange(10**6)}"] = Subscription(wanted, assignor.user_data((), -1))
    return Group(group.topics, members)


def kafka_assigns(directory: Path, assignor: Assignor, groups: Iterable[Group]) -> list[Assignment]:
    try:
        jars = class_path(CLIENT_JARS)
    except JarsNotAvailable as error:
        pytest.skip(str(error))
    groups = list(groups)
    lines: list[str] = []
    for group in groups:
        wanted = wanted_topics(group.members)
        lines += [f"topic {name} {count}" for name, count in group.topics.items() if name in wanted]
        for member_id, each in group.members.items():
            lines.append(f"member {member_id} {each.group_instance_id or '-'} {encode_subscription(each).hex()}")
        lines.append(f"assign {assignor.name}")
    asked, told = directory / "groups", directory / "assignments"
    asked.write_text("".join(line + "\n" for line in lines))
    classes = compile_java(SOURCE, jars=jars, output=directory / "classes")
    run_java(classes, "AssignorRun", [str(asked), str(told)])
    answers = iter(told.read_text().splitlines())
    results: list[Assignment] = []
    for group in groups:
        pairs = [next(answers).split(" ") for _ in group.members]
        results.append({member_id: decode_assignment(bytes.fromhex(data)) for member_id, data in pairs})
    return results


@pytest.mark.parametrize("assignor", [RangeAssignor(), RoundRobinAssignor()], ids=lambda each: str(each.name))
def test_range_and_round_robin_give_what_kafka_gives(tmp_path: Path, seed: int, assignor: Assignor) -> None:
    dice = random.Random(seed)
    groups = [draw_group(dice) for _ in range(GROUPS)]
    for group, theirs in zip(groups, kafka_assigns(tmp_path, assignor, groups), strict=True):
        ours = assignor.assign(group.topics, group.members)
        assert {each: sorted(ours[each]) for each in ours} == {each: sorted(theirs[each]) for each in theirs}, group


@pytest.mark.parametrize("assignor", [StickyAssignor(), CooperativeStickyAssignor()], ids=lambda each: str(each.name))
def test_sticky_assignors_are_as_even_and_move_as_little_as_kafkas(
    tmp_path: Path, seed: int, assignor: Assignor
) -> None:
    dice = random.Random(seed)
    firsts = [draw_group(dice, alike=True) for _ in range(GROUPS)]
    before = [assignor.assign(group.topics, group.members) for group in firsts]
    seconds = [next_generation(dice, *each, assignor) for each in zip(firsts, before, strict=True)]
    theirs = kafka_assigns(tmp_path, assignor, [*firsts, *seconds])
    for at, (group, kafka) in enumerate(zip([*firsts, *seconds], theirs, strict=True)):
        ours = assignor.assign(group.topics, group.members)
        if assignor.is_cooperative and at >= GROUPS:
            # What moves is nobody's yet: that there is as little of it says that it will be as even.
            assert sum(map(len, ours.values())) >= sum(map(len, kafka.values())), group
        else:
            assert sorted(map(len, ours.values())) == sorted(map(len, kafka.values())), group
    for group, kafka, had in zip(seconds, theirs[GROUPS:], before, strict=True):
        ours = assignor.assign(group.topics, group.members)
        assert kept(had, ours) >= kept(had, kafka), group


def kept(before: Assignment, after: Assignment) -> int:
    return sum(len(set(before.get(member_id, ())) & set(partitions)) for member_id, partitions in after.items())
