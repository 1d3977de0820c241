"""What `barnabas groups` refuses before and after it asked a cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tests.unit.admin.conftest import Run
from tests.unit.client.small_cluster import Asked, SmallCluster


class Groups:
    """One group of a topic t with offset 3 committed, in a state; what is committed instead."""

    def __init__(self) -> None:
        self.state = "Empty"
        self.members: list[DescribedGroupMember] = []
        self.error = ErrorCode.NONE
        self.commits: list[tuple[int, int]] = []

    def answer(self, asked: Asked) -> object:
        if asked.key is ApiKey.FIND_COORDINATOR:
            return FindCoordinatorResponse(error_message=None, node_id=2, host="127.0.0.1", port=2)
        if asked.key is ApiKey.LIST_GROUPS:
            return ListGroupsResponse(groups=[ListedGroup(f"g{asked.node_id}", "consumer", "Stable")])
        if asked.key is ApiKey.DESCRIBE_GROUPS:
            (name,) = asked.request.groups
            return DescribeGroupsResponse(
                groups=[DescribedGroup(self.error, name, self.state, "consumer", "range", self.members)]
            )
        if asked.key is ApiKey.OFFSET_FETCH:
            part = OffsetFetchResponsePartition(0, 3, -1, "")
            gone = OffsetFetchResponseTopic("gone", [OffsetFetchResponsePartition(0, 8, -1, "")])
            return OffsetFetchResponse(topics=[OffsetFetchResponseTopic("t", [part]), gone])
        if asked.key is ApiKey.OFFSET_COMMIT:
            (topic,) = asked.request.topics
            self.commits += [(part.partition_index, part.committed_offset) for part in topic.partitions]
            parts = [OffsetCommitResponsePartition(part.partition_index, self.error) for part in topic.partitions]
            return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(topic.name, parts)])
        return None


@pytest.fixture
def groups(served: SmallCluster) -> Groups:
    served.add_topic("t", 2)
    script = Groups()
    served.on_request = script.answer
    return script


def test_every_broker_lists_its_groups(groups: Groups, on_cluster: Run) -> None:
    assert [line.split() for line in on_cluster("groups", "list").lines[1:]] == [
        ["g1", "Stable", "consumer", "1"],
        ["g2", "Stable", "consumer", "2"],
    ]


def test_a_group_that_is_not_there_is_not_found(groups: Groups, on_cluster: Run) -> None:
    groups.state = "Dead"
    for command in ("describe", "members", "lag"):
        ran = on_cluster("groups", command, "missing")
        assert (ran.status, "there is no group missing" in ran.err) == (3, True)


def test_what_is_committed_of_a_topic_that_is_gone_has_no_lag(groups: Groups, on_cluster: Run) -> None:
    rows = [line.split() for line in on_cluster("groups", "lag", "g").lines[1:]]
    assert rows == [["gone", "0", "8", "-", "-", "-", "-"], ["t", "0", "3", "0", "0", "0", "-"]]


def test_a_member_whose_assignment_cannot_be_read_is_shown_without(groups: Groups, on_cluster: Run) -> None:
    groups.members = [
        DescribedGroupMember("m", None, "c", "/h", b"", b"\x00"),
        DescribedGroupMember("n", "i", "c", "/h"),
    ]
    rows = [line.split() for line in on_cluster("groups", "members", "g").lines[1:]]
    assert rows == [["m", "-", "c", "/h", "-"], ["n", "i", "c", "/h"]]


def test_a_reset_is_planned_and_done_only_when_asked(groups: Groups, on_cluster: Run) -> None:
    ran = on_cluster("groups", "reset", "g", "t", "--to-latest")
    assert (ran.status, "nothing was done" in ran.err, groups.commits) == (0, True, [])
    assert on_cluster("groups", "reset", "g", "t", "--to-latest", "--execute").status == 0
    assert groups.commits == [(0, 0), (1, 0)]
    groups.error = ErrorCode.UNKNOWN_MEMBER_ID
    groups.state = "Stable"
    assert on_cluster("groups", "reset", "g", "t", "--to-latest", "--execute").status == 1


def test_all_topics_are_those_that_are_there(groups: Groups, on_cluster: Run) -> None:
    assert on_cluster("groups", "reset", "g", "--all-topics", "--shift-by", "-1", "--execute").status == 0
    assert groups.commits == [(0, 0)]


def test_a_group_with_members_is_left_alone(groups: Groups, on_cluster: Run) -> None:
    groups.state, groups.members = "Stable", [DescribedGroupMember("m")]
    ran = on_cluster("groups", "reset", "g", "t", "--to-latest", "--execute")
    assert (ran.status, "stop its consumers first" in ran.err, groups.commits) == (1, True, [])


def test_offsets_of_a_file_are_committed(groups: Groups, on_cluster: Run, tmp_path: Path) -> None:
    (tmp_path / "offsets").write_text("t,1,0\n")
    assert on_cluster("groups", "reset", "g", "--from-file", str(tmp_path / "offsets"), "--execute").status == 0
    assert groups.commits == [(1, 0)]


def test_a_partition_that_there_is_not_is_not_found_at_once(groups: Groups, on_cluster: Run, tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    file.write_text("t,7,0\n")
    for arguments in (["t:7", "--to-latest"], ["--from-file", str(file)]):
        ran = on_cluster("groups", "reset", "g", *arguments, "--execute")
        assert (ran.status, "t has partitions 0 to 1, not 7" in ran.err, groups.commits) == (3, True, [])


def test_a_file_that_cannot_be_used_is_named_with_line_and_value(groups: Groups, run: Run, tmp_path: Path) -> None:
    (tmp_path / "offsets").write_text("t,0,1\nt,1,many\n")
    ran = run("groups", "reset", "g", "--from-file", str(tmp_path / "offsets"), "--execute")
    assert (ran.status, f"{tmp_path}/offsets: line 2: offset='many'" in ran.err, groups.commits) == (2, True, [])
    (tmp_path / "offsets").write_bytes(b"\xff\xfe")
    assert run("groups", "reset", "g", "--from-file", str(tmp_path / "offsets")).status == 2


def watch_lag(small: SmallCluster, output: int, *more: str) -> "subprocess.Popen[bytes]":
    place = ("--bootstrap-server", f"127.0.0.1:{small.ports[1]}")
    command = [sys.executable, "-m", "barnabas.admin.main", "groups", "lag", "g", "--watch", "--interval", "0.1"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "7"}
    return subprocess.Popen([*command, *place, *more], stdout=output, env=environment)


def read_until(source: int, *, wanted: bytes, count: int) -> bytes:
    found = b""
    while found.count(wanted) < count:
        piece = os.read(source, 4096)
        assert piece, found
        found += piece
    return found


@pytest.mark.timeout(60)
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals here")
def test_a_watch_redraws_a_terminal_as_far_as_there_is_room(groups: Groups, served: SmallCluster) -> None:
    ours, theirs = os.openpty()
    watching = watch_lag(served, theirs)
    try:
        found = read_until(ours, wanted=b"\x1b[2J\x1b[1;1H", count=3)
    finally:
        watching.kill()
        watching.wait()
        os.close(ours)
        os.close(theirs)
    first = found.split(b"\x1b[2J\x1b[1;1H")[1].decode()
    assert "group g (Empty), every 0.1 s" in first
    assert "and 1 more" in first
    assert ("gone" in first, " t " in first) == (True, False)


@pytest.mark.timeout(60)
def test_a_watch_that_is_piped_prints_plain_tables_one_after_the_other(groups: Groups, served: SmallCluster) -> None:
    ours, theirs = os.pipe()
    watching = watch_lag(served, theirs)
    try:
        found = read_until(ours, wanted=b"TOPIC", count=3)
    finally:
        watching.kill()
        watching.wait()
        os.close(ours)
        os.close(theirs)
    assert b"\x1b" not in found


@pytest.mark.parametrize(
    "arguments",
    [
        ("t",),
        ("t", "--to-latest", "--to-earliest"),
        ("t", "--all-topics", "--to-latest"),
        ("--to-latest",),
        ("t", "--to-datetime", "soon"),
        ("t", "--by-duration", "-2h"),
    ],
)
def test_a_reset_says_what_and_where_to_once(run: Run, arguments: tuple[str, ...]) -> None:
    assert run("groups", "reset", "g", *arguments).status == 2
