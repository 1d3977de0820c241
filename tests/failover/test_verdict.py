"""The judge is judged: what is planted into the files of load clients is found, and nothing is found in good ones."""

from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history_check import AnomalyKind
from tests.failover.load.arguments import Pace, Task, parse
from tests.failover.load.history_file import HistoryFile, NotAHistory, now_us, read_history
from tests.failover.world.verdict import compare_replicas, damage, judge

RECORDS = 40
PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]
Lines = list[str]


def write_good(directory: Path) -> list[Path]:
    """A producer that got everything through, one who read along and one who read everything at the end."""
    written: dict[TopicPartition, list[tuple[int, bytes]]] = {where: [] for where in PARTITIONS}
    paths = [directory / "producer.txt", directory / "along.txt", directory / "end.txt"]
    with HistoryFile(paths[0], "producer") as producer, HistoryFile(paths[1], "along") as along:
        for number in range(2 * RECORDS):
            where = PARTITIONS[number % 2]
            sequence, value = producer.sends(where, size_bytes=120)
            written[where].append((sequence, value))
            producer.acknowledged(where.partition, sequence, sequence)
            if sequence % 8 == 7:
                along.read(where, written[where][-8:], now_us())
    with HistoryFile(paths[2], "end") as end:
        for where, records in written.items():
            end.read(where, records[:25], now_us(), final=True)
            end.read(where, records[25:], now_us(), final=True)
    return paths


def findings(paths: list[Path]) -> list[str]:
    return judge(paths, PARTITIONS).findings


def test_a_good_history_has_no_findings(tmp_path: Path) -> None:
    verdict = judge(write_good(tmp_path), PARTITIONS)
    assert verdict.findings == []
    assert (verdict.sent, verdict.acknowledged, verdict.read) == (80, 80, 160)
    assert (verdict.acknowledged_by, verdict.read_by) == ({"producer": 80}, {"along": 80, "end": 80})


def drop_read(lines: Lines) -> Lines:
    return [line for line in lines if not line.startswith("v 10 t|0|")]


def drop_the_last_reads(lines: Lines) -> Lines:
    return [line for line in lines if not line.startswith(("v 38 t|0|", "v 39 t|0|"))]


def read_another_in_its_place(lines: Lines) -> Lines:
    other = next(line for line in lines if line.startswith("v 11 t|0|")).split(" ", 2)[2]
    return [f"v 10 {other}" if line.startswith("v 10 t|0|") else line for line in lines]


def read_twice(lines: Lines) -> Lines:
    """The record stands again at an offset of its own behind the last one."""
    again = next(line for line in lines if line.startswith("v 10 t|0|")).replace("v 10", "v 40")
    place = max(number for number, line in enumerate(lines) if line.startswith("v 39 t|0|"))
    return [*lines[: place + 1], again, *lines[place + 1 :]]


def change_a_value(lines: Lines) -> Lines:
    return [f"x 10 {b'changed'.hex()}" if line.startswith("v 10 t|0|") else line for line in lines]


def move_to_the_other_partition(lines: Lines) -> Lines:
    other = next(line for line in lines if line.startswith("v 10 t|0|"))
    return [other if line.startswith("v 10 t|1|") else line for line in lines]


def acknowledge_elsewhere(lines: Lines) -> Lines:
    return [line[:-2] + "9" if line.startswith("k ") and line.endswith(" 0 10 10") else line for line in lines]


def swap_two(lines: Lines) -> Lines:
    """Two records of one producer stand the wrong way round, and their acknowledgements say the same."""
    swapped = list(lines)
    for number, line in enumerate(lines):
        if line.startswith("v 10 t|0|"):
            swapped[number] = line[:5] + lines[number + 1][5:]
            swapped[number + 1] = lines[number + 1][:5] + line[5:]
        if line.startswith("k ") and line.endswith((" 0 10 10", " 0 11 11")):
            swapped[number] = line[:-2] + ("11" if line.endswith("10") else "10")
    return swapped


def go_back(lines: Lines) -> Lines:
    """The reader is given again what it had."""
    block = lines[lines.index(next(line for line in lines if line.startswith("p "))) :][:9]
    return [*lines[:-1], *block, lines[-1]]


def leave_out(lines: Lines) -> Lines:
    """The reader that reads along is not given a record that is there."""
    return [line for line in lines if not line.startswith("v 12 t|0|")]


@pytest.mark.parametrize(
    ("files", "plant", "kind"),
    [
        ({0, 1, 2}, swap_two, AnomalyKind.REORDERED),
        ({2}, drop_read, AnomalyKind.LOST),
        ({2}, drop_the_last_reads, AnomalyKind.UNSEEN),
        ({2}, read_another_in_its_place, AnomalyKind.INCONSISTENT_OFFSETS),
        ({2}, read_twice, AnomalyKind.DUPLICATE),
        ({1, 2}, change_a_value, AnomalyKind.CHANGED),
        ({2}, move_to_the_other_partition, AnomalyKind.CHANGED),
        ({0}, acknowledge_elsewhere, AnomalyKind.INCONSISTENT_OFFSETS),
        ({1}, go_back, AnomalyKind.NONMONOTONIC_POLL),
        ({1}, leave_out, AnomalyKind.SKIPPING_POLL),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_planted_anomaly_is_found(
    tmp_path: Path, files: set[int], plant: Callable[[Lines], Lines], kind: AnomalyKind
) -> None:
    paths = write_good(tmp_path)
    for number in files:
        lines = paths[number].read_text().splitlines()
        planted = plant(lines)
        assert planted != lines
        paths[number].write_text("\n".join(planted) + "\n")
    assert any(text.startswith(f"{kind}: ") for text in findings(paths)), findings(paths)


def test_a_partition_that_nobody_read_to_the_end_is_a_finding(tmp_path: Path) -> None:
    paths = write_good(tmp_path)
    assert findings(paths[:2]) == [f"{where}: nothing was read at the end" for where in PARTITIONS]
    paths[1].write_text("client along\nend\n")
    paths[2].write_text("client end\nend\n")
    assert len(findings(paths)) == 2


def test_a_partition_that_nobody_wrote_to_is_a_finding(tmp_path: Path) -> None:
    paths = write_good(tmp_path)
    assert judge(paths, [TopicPartition("t", 2)]).findings[0] == f"{TopicPartition('t', 2)}: nothing was acknowledged"


def test_a_client_that_ended_before_its_time_is_a_finding(tmp_path: Path) -> None:
    paths = write_good(tmp_path)
    text = paths[0].read_text()
    paths[0].write_text(text.removesuffix("end\n") + "i 17 t|0|producer|0|9")
    assert findings(paths) == ["producer: did not end as it should"]
    paths[0].write_text(text.removesuffix("end\n") + "e 17 the producer was fenced\nend\n")
    assert findings(paths) == ["producer: 17 the producer was fenced"]


def test_a_line_that_is_none_is_refused(tmp_path: Path) -> None:
    paths = write_good(tmp_path)
    for line in ("k 1 0 999 999", "k 1 0", "k 1 0 1 2 3", "z", "v one t|0|p|0|0|1|"):
        paths[1].write_text(f"client along\n{line}\nend\n")
        with pytest.raises(NotAHistory):
            read_history(paths)


def test_what_a_client_gave_up_may_be_there_and_what_was_refused_may_not(tmp_path: Path) -> None:
    for kind, found in (("u", []), ("f", [AnomalyKind.ABORTED_READ])):
        paths = write_good(tmp_path)
        text = paths[0].read_text().splitlines()
        lines = [f"{kind} {line.split()[1]} 0 10 REASON" if line.endswith(" 0 10 10") else line for line in text]
        assert lines != text
        paths[0].write_text("\n".join(lines) + "\n")
        assert {text.split(":")[0] for text in findings(paths)} == set(found)


def test_an_acknowledgement_may_come_without_an_offset_and_its_record_has_to_be_there(tmp_path: Path) -> None:
    paths = write_good(tmp_path)
    text = paths[0].read_text().splitlines()
    lines = [line.removesuffix(" 10") if line.endswith(" 0 10 10") else line for line in text]
    assert lines != text
    paths[0].write_text("\n".join(lines) + "\n")
    assert findings(paths) == []
    for path in paths[1:]:
        path.write_text("\n".join(drop_read(path.read_text().splitlines())) + "\n")
    assert any(text.startswith("lost: ") for text in findings(paths)), findings(paths)


def test_replicas_that_differ_are_found() -> None:
    good = {1: {0: b"abcdef", 1: b""}, 2: {0: b"abcdef", 1: b""}, 3: {0: b"abcdef", 1: b""}}
    assert compare_replicas(good, replicas=3) == []
    shorter = {**good, 2: {0: b"abcd", 1: b""}}
    assert compare_replicas(shorter, replicas=3) == [
        "partition 0: brokers 1 and 2 have 6 and 4 bytes, the same up to 4",
        "partition 0: brokers 2 and 3 have 4 and 6 bytes, the same up to 4",
    ]
    assert compare_replicas({**good, 3: {0: b"abXdef", 1: b""}}, replicas=3) == [
        "partition 0: brokers 2 and 3 have 6 and 6 bytes, the same up to 2"
    ]
    assert compare_replicas({**good, 3: {1: b""}}, replicas=3) == ["partition 0: 2 replicas, not 3"]


def test_what_a_broker_says_of_failed_assertions_is_found() -> None:
    assert damage("[...] INFO all is well\n[...] CRITICAL fetcher failed: ending the process (broker)\n") == [
        "[...] CRITICAL fetcher failed: ending the process (broker)"
    ]
    assert damage("[...] CRITICAL the last log directory failed: ending the process (broker)\n") == []


def test_a_pace_lets_go_what_could_not_be_sent_for_more_than_a_second() -> None:
    pace = Pace(100, 0.0)
    assert pace.due(0.5) == 50
    pace.sent(50)
    assert pace.due(0.5) == 0
    assert pace.due(10.0) == 100
    pace.sent(100)
    assert pace.due(10.0) == 0
    assert pace.due(10.1) == 10


def test_a_task_survives_its_command_line(tmp_path: Path) -> None:
    task = Task("host:1,other:2", "t", 3, "client", tmp_path / "history.txt", 100, 200, 300)
    assert parse(task.arguments()) == task
