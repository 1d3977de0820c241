"""README's tables from the JSON of several runs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bench.side_by_side.figures import Figure, Target, results
from bench.side_by_side.pivots import (
    aims,
    as_tables,
    curves,
    kernel_alone,
    latencies,
    others,
    requests,
    rows_of,
    sources,
    volumes,
)
from bench.side_by_side.row import CPU_S_GB, CPU_US, KERNEL_S_GB, LESS_CPU, MB_S, MORE, REQUESTS_S
from bench.side_by_side.rows.volume import PHYSICAL

ABOUT = {
    "date": "2026-01-02",
    "barnabas": "abc",
    "way_of_records": "compiled",
    "tcp_congestion_control": "reno",
    "rounds": 5,
}


def figures(values: Mapping[str, float], *, limiter: str = "broker", at: float | None = None) -> list[Figure]:
    rates = {MB_S, REQUESTS_S, PHYSICAL}
    units = {CPU_S_GB: "s/GB", CPU_US: "us", PHYSICAL: "x", "exponent of PSS": "", "seconds": "s"}
    return [
        Figure(name, value, units.get(name, name if name in rates else "ms"), limiter, name in rates, at)
        for name, value in values.items()
    ]


class Results:
    """A file as a run leaves it, below a directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: list[object] = []

    def add(
        self,
        row: str,
        ours: Sequence[Sequence[Figure]],
        kafkas: Sequence[Sequence[Figure]],
        targets: Mapping[str, Target] | None = None,
    ) -> "Results":
        found = results(row, {"here": ours, "2.7.2": kafkas}, targets or {})
        self._rows += [result.as_json() for result in found]
        self.path.write_text(json.dumps({"about": ABOUT, "rows": self._rows}))
        return self


def test_a_row_of_bytes_is_a_line_and_what_misses_its_aim_is_bold(tmp_path: Path) -> None:
    ours = [figures({MB_S: rate, "records/s": 1.0, CPU_S_GB: 0.5, KERNEL_S_GB: 0.4}) for rate in (100, 110, 120)]
    kafka = [figures({MB_S: 100, "records/s": 1.0, CPU_S_GB: 1.0, KERNEL_S_GB: 0.6})]
    told = Results(tmp_path / "a.json").add("produce, plain", ours, kafka, {MB_S: MORE, CPU_S_GB: LESS_CPU})
    (line,) = volumes(rows_of([told.path]), "produce, ")[2:]
    rate, cost = "110 (100 to 120) | 100, 2.7.2 | **1.10 x**", "0.50 | 1.00, 2.7.2 | 0.50 x | 0.40 / 0.60"
    assert line == f"| plain | {rate} | {cost} | broker, broker |"


def test_a_rate_that_is_not_judged_is_in_brackets(tmp_path: Path) -> None:
    runs = [figures({MB_S: 100, CPU_S_GB: 0.5}, limiter="client")]
    told = Results(tmp_path / "a.json").add("produce, plain", runs, runs, {MB_S: MORE})
    (line,) = volumes(rows_of([told.path]), "produce, ")[2:]
    assert "| (1.00 x) | 0.50 | 0.50, 2.7.2 | 1.00 x |  | client, client |" in line


def test_a_drain_has_what_it_is_of_a_bare_loop_and_copies_are_told_elsewhere(tmp_path: Path) -> None:
    runs = [figures({MB_S: 100, CPU_S_GB: 0.5, PHYSICAL: 0.6})]
    kafka = [figures({MB_S: 100, CPU_S_GB: 0.5, PHYSICAL: 0.8})]
    told = Results(tmp_path / "a.json").add(
        "consume, warm", runs, kafka, {PHYSICAL: Target(at_least=True, absolute=0.7)}
    )
    told.add("consume, copies, warm", [figures({"copied": 2.0})], [])
    (line,) = volumes(rows_of([told.path]), "consume, ")[2:]
    assert line.endswith("| **0.60** / 0.80 | broker, broker |")
    assert others(rows_of([told.path]))[2:] == ["| consume, copies, warm: copied (ms) | 2.00 |  |  |  | broker |"]


def test_of_a_row_in_several_files_the_last_counts(tmp_path: Path) -> None:
    files = []
    for number in (1, 2):
        told = Results(tmp_path / f"{number}.json")
        told.add("one record a request, 1", [figures({REQUESTS_S: number * 1000, CPU_US: 5})], [])
        files.append(told.path)
    assert requests(rows_of(files))[2:] == ["| 1 | 2,000 |  |  | 5.00 |  |  | broker |"]


def test_a_rate_of_latency_has_a_line_for_each_of_its_ends(tmp_path: Path) -> None:
    names = [
        f"{percentile} {end}" for end in ("acknowledged", "end to end") for percentile in ["p50", "p99", "p99.9", "max"]
    ]
    ours = [figures({name: float(number) for number, name in enumerate(names, 1)})]
    told = Results(tmp_path / "a.json").add(
        "latency at 10", ours, ours, {"p99 acknowledged": Target(at_least=False, ratio=0.5)}
    )
    assert latencies(rows_of([told.path]))[2:] == [
        "| 10, acknowledged | 1.00 / 1.00 | 2.00 / 2.00, **1.00 x** | 3.00 / 3.00 | 4.00 / 4.00 |",
        "| 10, end to end | 5.00 / 5.00 | 6.00 / 6.00 | 7.00 / 7.00 | 8.00 / 8.00 |",
    ]


@pytest.mark.parametrize("kafka_fails", [False, True])
def test_a_curve_is_a_line_of_its_points_with_the_exponents(kafka_fails: bool, tmp_path: Path) -> None:
    ours = [figures({"PSS": 1.0}, at=10) + figures({"PSS": 2.0}, at=100) + figures({"exponent of PSS": 0.9})]
    # Of Kafka that is of one version, and the points are of the better one at each size.
    kafka = [] if kafka_fails else ours
    told = Results(tmp_path / "a.json").add("growth, partitions", ours, kafka)
    theirs, exponent = (", ", "") if kafka_fails else ("1.00, 2.00", "0.30")
    assert curves(rows_of([told.path]))[2:] == [
        f"| partitions: PSS (ms) | 10, 100 | 1.00, 2.00 | {theirs} | 0.30 | {exponent} |"
    ]


def test_tables_without_a_line_are_left_out(tmp_path: Path) -> None:
    told = Results(tmp_path / "a.json").add("recovery", [figures({"seconds": 1.0})], [figures({"seconds": 2.0})])
    assert as_tables([told.path]).splitlines() == [
        "Life, memory, failover, coordinators:",
        "",
        "|  | Barnabas | Kafka | ratio | aim | limited by |",
        "| --- | --- | --- | --- | --- | --- |",
        "| recovery: seconds | 1.00 | 2.00, 2.7.2 | 0.50 x |  | broker, broker |",
        "",
        "Runs:",
        "",
        "| measured | Barnabas | TCP | rounds | rows |",
        "| --- | --- | --- | --- | --- |",
        "| 2026-01-02 | abc, compiled | reno | 1 | 1 |",
    ]


def test_a_run_that_ended_early_tells_the_rounds_that_it_had(tmp_path: Path) -> None:
    told = Results(tmp_path / "a.json")
    for name, rounds in (("a", 2), ("b", 3)):
        told.add(name, [figures({"seconds": 1.0})] * rounds, [figures({"seconds": 2.0})] * rounds)
    (line,) = sources([told.path], rows_of([told.path]))[2:]
    assert line == "| 2026-01-02 | abc, compiled | reno | 2 to 3 | 2 |"


def test_a_file_whose_rows_were_all_measured_again_is_not_told(tmp_path: Path) -> None:
    first = Results(tmp_path / "a.json").add("a", [figures({"seconds": 1.0})], [figures({"seconds": 2.0})])
    first.add("b", [figures({"seconds": 1.0})], [figures({"seconds": 2.0})])
    second = Results(tmp_path / "b.json").add("b", [figures({"seconds": 1.0})], [figures({"seconds": 2.0})])
    third = Results(tmp_path / "c.json").add("b", [figures({"seconds": 1.0})], [figures({"seconds": 2.0})])
    files = [first.path, second.path, third.path]
    assert [line.split(" | ")[-1] for line in sources(files, rows_of(files))[2:]] == ["1 |", "1 |"]


def test_of_each_kind_of_aim_it_is_told_how_many_are_met(tmp_path: Path) -> None:
    kafka = [figures({MB_S: 100, CPU_S_GB: 1.0, PHYSICAL: 0.9})]
    told = Results(tmp_path / "a.json")
    for name, rate, limiter in (("a", 130, "broker"), ("b", 150, "broker"), ("c", 90, "broker"), ("d", 80, "client")):
        ours = [figures({MB_S: rate, CPU_S_GB: 0.7}, limiter=limiter)]
        told.add(f"produce, {name}", ours, kafka, {MB_S: MORE, CPU_S_GB: LESS_CPU})
    share = Target(at_least=True, absolute=0.7)
    told.add("consume, a", [figures({MB_S: 100, CPU_S_GB: 1.0, PHYSICAL: 0.8})], kafka, {PHYSICAL: share})
    for at_least, ratio in ((0.8, 0.9), (1.0, 1.5)):
        theirs = [figures({REQUESTS_S: 100})]
        aim = {REQUESTS_S: Target(at_least=True, ratio=at_least)}
        told.add(f"one record a request, {ratio}", [figures({REQUESTS_S: 100 * ratio})], theirs, aim)
    told.add("recovery", [figures({"seconds": 1.0})], [figures({"seconds": 2.0})])
    assert aims(rows_of([told.path]))[2:] == [
        "| MB/s, produce | at least 1.2 x | 2 of 3 | 1.30 (0.90 to 1.50) x |",
        "| broker CPU s/GB, produce | at most 0.6 x | 0 of 4 | 0.70 x |",
        "| consume, of a bare sendfile loop's rate | at least 0.7 | 1 of 1 | 0.80 x |",
        "| one record a request | at least 0.8 x | 1 of 1 | 0.90 x |",
        "| one record a request | at least 1 x | 1 of 1 | 1.50 x |",
    ]


def test_a_cost_may_miss_its_aim_by_the_kernel_alone(tmp_path: Path) -> None:
    told, kafka = Results(tmp_path / "a.json"), [figures({CPU_S_GB: 1.0, KERNEL_S_GB: 0.5})]
    for name, cost, kernel in (("met", 0.5, 0.4), ("beyond", 0.8, 0.64), ("within", 0.8, 0.56), ("at", 0.8, 0.6)):
        told.add(f"produce, {name}", [figures({CPU_S_GB: cost, KERNEL_S_GB: kernel})], kafka, {CPU_S_GB: LESS_CPU})
    told.add("produce, unjudged", [figures({CPU_S_GB: 0.8, KERNEL_S_GB: 0.8})], kafka)
    told.add("consume, uncounted", [figures({CPU_S_GB: 0.8})], [figures({CPU_S_GB: 1.0})], {CPU_S_GB: LESS_CPU})
    told.add("consume, counted", [figures({CPU_S_GB: 0.7, KERNEL_S_GB: 0.7})], kafka, {CPU_S_GB: LESS_CPU})
    assert kernel_alone(rows_of([told.path]))[2:] == [
        "| produce | 3 | 1 | 75% | 50% |",
        "| consume | 1 | 1 | 100% | 50% |",
    ]


def test_the_kernels_part_is_of_that_kafka_whose_cost_is_told(tmp_path: Path) -> None:
    runs = {
        "here": [figures({MB_S: 1, CPU_S_GB: 0.7, KERNEL_S_GB: 0.3})],
        "2.7.2": [figures({MB_S: 1, CPU_S_GB: 1.0, KERNEL_S_GB: 0.8})],
        "3.9.2": [figures({MB_S: 1, CPU_S_GB: 2.0, KERNEL_S_GB: 0.5})],
    }
    path = tmp_path / "a.json"
    found = results("produce, plain", runs, {CPU_S_GB: LESS_CPU})
    path.write_text(json.dumps({"about": ABOUT, "rows": [result.as_json() for result in found]}))
    (line,) = volumes(rows_of([path]), "produce, ")[2:]
    assert "| 0.70 | 1.00, 2.7.2 | **0.70 x** | 0.30 / 0.80 |" in line
    assert kernel_alone(rows_of([path]))[2:] == ["| produce | 1 | 0 | 43% | 80% |"]
