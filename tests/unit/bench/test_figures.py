"""What the runs of all contestants come to: medians, the better Kafka, aims, and rates that clients limit."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bench.side_by_side.__main__ import all_rows, chosen_rows
from bench.side_by_side.comparison import Comparison
from bench.side_by_side.curves import draw
from bench.side_by_side.figures import Figure, Result, Runs, Target, exponent, limiter_of, results
from bench.side_by_side.report import as_json, as_markdown
from bench.side_by_side.row import Incomplete, Run
from bench.side_by_side.rows.growth import exponents, growth

ABOUT = {
    "date": "2026-01-01",
    "machine": "m",
    "cpus": 2,
    "memory_gb": 8,
    "processor": "p",
    "tcp_congestion_control": "reno",
    "python": "3.11",
    "java": "j",
    "kcat": "librdkafka 2",
    "zookeeper": "3.9",
    "barnabas": "abc",
    "rounds": 1,
    "command": "c",
    "way_of_records": "compiled",
}
MORE = Target(at_least=True, ratio=1.2)
LESS = Target(at_least=False, ratio=0.6)


def rate(value: float, limiter: str = "broker") -> list[Figure]:
    return [Figure("MB/s", value, "MB/s", limiter, is_rate=True)]


def cost(value: float, limiter: str = "broker") -> list[Figure]:
    return [Figure("s/GB", value, "s/GB", limiter)]


def only(found: list[Result]) -> Result:
    (result,) = found
    return result


def test_a_rate_is_held_against_the_faster_kafka() -> None:
    runs = {"here": [rate(130)], "2.7.2": [rate(100)], "3.9.2": [rate(120)]}
    result = only(results("row", runs, {"MB/s": MORE}))
    assert (result.rival_version, result.ratio, result.met) == ("3.9.2", pytest.approx(130 / 120), False)
    assert result.others["2.7.2"].median == 100


def test_a_cost_is_held_against_the_cheaper_kafka() -> None:
    runs = {"here": [cost(1.0)], "2.7.2": [cost(2.0)], "3.9.2": [cost(1.5)]}
    result = only(results("row", runs, {"s/GB": LESS}))
    assert (result.rival_version, result.met) == ("3.9.2", False)


@pytest.mark.parametrize(
    ("rounds", "limiter"),
    [
        (["client", "broker"], "client"),
        (["broker", "client"], "client"),
        (["client", "disk", "broker", "broker"], "client"),
        (["client", "disk", "broker", "broker", "broker"], "broker"),
        (["client", "client", "disk", "broker", "broker"], "client"),
        (["machine", "broker", "waiting", "machine"], "machine"),
        (["waiting", "broker"], "broker"),
    ],
)
def test_a_limiter_elsewhere_in_half_of_the_rounds_is_the_limiter_in_whatever_order(
    rounds: list[str], limiter: str
) -> None:
    assert limiter_of(rounds) == limiter_of(rounds[::-1]) == limiter


def test_the_json_has_every_run() -> None:
    result = only(results("row", {"here": [rate(1), rate(3)], "2.7.2": [rate(2)]}, {}))
    assert result.as_json()["runs"] == {"here": [1, 3], "2.7.2": [2]}


def test_the_median_of_the_rounds_counts_and_the_spread_is_told() -> None:
    runs = {"here": [rate(100), rate(500), rate(150)], "2.7.2": [rate(100), rate(90), rate(110)]}
    result = only(results("row", runs, {"MB/s": MORE}))
    assert (result.barnabas.median, result.barnabas.least, result.barnabas.greatest) == (150, 100, 500)
    assert result.ratio == 1.5
    assert result.met is True


@pytest.mark.parametrize(("ours", "theirs"), [("client", "broker"), ("broker", "client")])
def test_a_rate_that_a_client_limited_is_not_judged_but_its_cost_is(ours: str, theirs: str) -> None:
    runs = {
        "here": [[*rate(100, ours), *cost(1.0, ours)]],
        "2.7.2": [[*rate(100, theirs), *cost(3.0, theirs)]],
    }
    by_rate, by_cost = results("row", runs, {"MB/s": MORE, "s/GB": LESS})
    assert by_rate.met is None
    assert by_cost.met is True


@pytest.mark.parametrize(
    ("limiter", "met"), [("client", (None, False)), ("disk", (None, False)), ("broker", (True, None))]
)
def test_a_cost_stands_in_for_rates_that_no_broker_limited(limiter: str, met: tuple[bool | None, bool | None]) -> None:
    runs = {"here": [[*rate(150, limiter), *cost(1.0)]], "2.7.2": [[*rate(100), *cost(1.5)]]}
    targets = {"MB/s": MORE, "s/GB": Target(at_least=False, ratio=0.6, stands_in=True)}
    by_rate, by_cost = results("row", runs, targets)
    assert (by_rate.met, by_cost.met) == met


def test_without_kafka_only_an_absolute_aim_can_be_met() -> None:
    target = Target(at_least=False, ratio=0.3, absolute=90.0)
    assert only(results("row", {"here": [cost(50.0)]}, {"s/GB": target})).met is None
    assert only(results("row", {"here": [cost(50.0)]}, {"s/GB": Target(at_least=False, absolute=90.0)})).met is True


def test_what_one_system_has_no_figure_of_is_shown_and_not_judged() -> None:
    runs = {"here": [rate(150), rate(150)], "2.7.2": [rate(100)], "3.9.2": []}
    result = only(results("row", runs, {"MB/s": MORE}))
    assert (result.ratio, result.met, result.missing) == (1.5, None, ["3.9.2"])
    assert result.as_json()["rounds"] == {"here": 2, "2.7.2": 1, "3.9.2": 0}
    assert "| not judged (without 3.9.2) |" in as_markdown(Comparison([result]), ABOUT)


def test_a_figure_that_only_a_later_round_has_is_there() -> None:
    runs = {"here": [rate(150), [*rate(150), *cost(1)]], "2.7.2": [rate(100)]}
    assert [(each.figure, each.rounds) for each in results("row", runs, {})] == [
        ("MB/s", {"here": 2, "2.7.2": 1}),
        ("s/GB", {"here": 1, "2.7.2": 0}),
    ]


def few(figures: list[Figure]) -> list[Figure]:
    return [replace(figure, unjudged="few ticks") for figure in figures]


def test_a_cost_that_says_too_little_in_half_of_the_rounds_is_not_judged() -> None:
    targets = {"s/GB": LESS}
    most = {"here": [few(cost(1.0)), cost(1.0), cost(1.0)], "2.7.2": [cost(2.0)] * 3}
    half = {"here": [cost(1.0)] * 2, "2.7.2": [cost(2.0), few(cost(2.0))]}
    assert (only(results("row", most, targets)).met, only(results("row", most, targets)).unjudged) == (True, "")
    result = only(results("row", half, targets))
    assert (result.met, result.unjudged) == (None, "Kafka 2.7.2: few ticks")
    assert "| at most 0.6 x | not judged (Kafka 2.7.2: few ticks) |" in as_markdown(Comparison([result]), ABOUT)


def test_what_kafka_says_too_little_of_is_no_matter_where_none_is_compared() -> None:
    target = {"MB/s": Target(at_least=True, absolute=100)}
    assert only(results("row", {"here": [rate(150)], "2.7.2": [few(rate(100))]}, target)).met is True
    assert only(results("row", {"here": [few(rate(150))], "2.7.2": [rate(100)]}, target)).met is None


def test_json_says_why_something_is_not_judged() -> None:
    def why(runs: Runs, targets: Mapping[str, Target], **options: bool) -> object:
        return only(results("row", runs, targets, **options)).as_json()["unjudged"]

    both: Runs = {"here": [rate(150)], "2.7.2": [rate(100)]}
    assert why(both, {"MB/s": MORE}) is None
    assert why(both, {}) is None
    assert why(both, {"MB/s": MORE}, judges=False) == "a smoke run"
    assert why(both, {}, judges=False) is None
    assert why({"here": [rate(150)]}, {"MB/s": MORE}) == "no Kafka to compare with"
    assert why({"here": [rate(150)], "2.7.2": []}, {"MB/s": MORE}) == "without 2.7.2"
    assert why({"here": [rate(150)], "2.7.2": [rate(0)]}, {"MB/s": MORE}) == "0 of Kafka"
    limited: Runs = {"here": [rate(150, "disk")], "2.7.2": [rate(100, "client")]}
    assert why(limited, {"MB/s": MORE}) == "limited by the client and the disk"
    kafkas: Runs = {"here": [rate(150, "client")], "2.7.2": [rate(100, "disk")]}
    assert why(kafkas, {"MB/s": MORE}) == "limited by the client"


def test_where_the_disk_limited_kafka_only_ours_is_judged() -> None:
    runs = {"here": [[*rate(100, "waiting"), *cost(1.0)]], "2.7.2": [[*rate(150, "disk"), *cost(1.5)]]}
    targets = {"MB/s": MORE, "s/GB": Target(at_least=False, ratio=0.6, stands_in=True)}
    by_rate, by_cost = results("row", runs, targets)
    assert (by_rate.met, by_cost.met) == (False, None)


def test_what_else_used_the_machine_is_told_of_the_runs_in_which_it_was_much() -> None:
    def beside(*cores: float) -> list[list[Figure]]:
        return [[replace(figure, elsewhere=each) for figure in (*rate(150), *cost(1.0))] for each in cores]

    found = results("row", {"here": beside(0.1, 0.29), "2.7.2": beside(0.0, 0.71)}, {"MB/s": MORE})
    assert found[0].as_json()["elsewhere_cores"] == {"here": [0.1, 0.29], "2.7.2": [0.0, 0.71]}
    lines = as_markdown(Comparison(found), ABOUT).splitlines()
    assert [line for line in lines if "Something else" in line] == [
        "Something else used the machine: row: 0.71 cores in round 2 of Kafka 2.7.2"
    ]
    assert results("row", {"here": [rate(1)]}, {})[0].as_json()["elsewhere_cores"] == {}


def test_how_fast_the_processors_were_is_told_of_every_run_once() -> None:
    def at(*loops_ms: float) -> list[list[Figure]]:
        return [[replace(figure, loop_ms=each) for figure in (*rate(150), *cost(1.0))] for each in loops_ms]

    found = results("row", {"here": at(20.0, 22.0), "2.7.2": at(41.0)}, {"MB/s": MORE})
    assert found[1].as_json()["loop_ms"] == {"here": [20.0, 22.0], "2.7.2": [41.0]}
    told = [line for line in as_markdown(Comparison(found), ABOUT).splitlines() if "a loop of Python" in line]
    assert told == ["Beside the runs a loop of Python took 22.0 (20.0 to 41.0) ms: so fast the processors were."]
    without = results("row", {"here": [rate(1)]}, {})
    assert without[0].as_json()["loop_ms"] == {}
    assert "a loop of Python" not in as_markdown(Comparison(without), ABOUT)


def test_what_has_no_aim_is_told_apart() -> None:
    runs = {"here": [[*rate(150), *cost(1)], [*rate(160), *cost(2)]], "2.7.2": [[*rate(100), *cost(2)]] * 2}
    table = as_markdown(Comparison(results("row", runs, {"MB/s": MORE})), ABOUT)
    aims, others = table.split("<details><summary>What has no aim</summary>")
    assert "| row, MB/s | 155 (150 to 160) | 100, 2.7.2 | 1.55 x |" in aims
    assert "|  | Barnabas | Kafka | ratio | limited by (ours, Kafka) |" in others
    assert "| row, s/GB | 1.50 (1.00 to 2.00) | 2.00, 2.7.2 | 0.75 x | broker, broker |" in others


def test_rounds_are_counted() -> None:
    assert "; 1 round; `c`" in as_markdown(Comparison(), ABOUT)
    assert "; 5 rounds in turn; `c`" in as_markdown(Comparison(), {**ABOUT, "rounds": 5})


def test_both_bounds_of_an_aim_have_to_hold() -> None:
    target = Target(at_least=False, ratio=0.3, absolute=90.0)
    assert target.is_met(80.0, 0.2)
    assert not target.is_met(95.0, 0.2)
    assert not target.is_met(80.0, 0.4)
    assert str(target) == "at most 0.3 x and 90"


def test_an_aim_that_is_no_ratio_is_told_with_its_unit_and_without_a_ratio() -> None:
    def told(target: Target) -> str:
        runs = {"here": [[Figure("PSS", 60.0, "MB")]], "2.7.2": [[Figure("PSS", 300.0, "MB")]]}
        return as_markdown(Comparison(results("row", runs, {"PSS": target})), ABOUT)

    assert "| 300, 2.7.2 |  | at most 90 MB | yes |" in told(Target(at_least=False, absolute=90.0))
    both = Target(at_least=False, ratio=0.3, absolute=90.0)
    assert "| 300, 2.7.2 | 0.20 x | at most 0.3 x and 90 MB | yes |" in told(both)


def test_a_figure_without_an_aim_is_shown_and_not_judged() -> None:
    assert only(results("row", {"here": [cost(1.0)], "2.7.2": [cost(2.0)]}, {})).met is None


def test_no_row_is_there_twice_and_twelve_are_core() -> None:
    names = [row.name for row in all_rows()]
    assert len(names) == len(set(names))
    core, others = chosen_rows([], full=False), chosen_rows([], full=True)
    assert len(core) == 12
    assert sorted(row.name for row in (*core, *others)) == sorted(names)


def test_no_row_that_is_warmed_follows_a_restart() -> None:
    restarting = {row.name for row in all_rows() if row.is_fresh}
    assert {"from exec to the first acknowledged record", "recovery after kill -9 with 2 GB unflushed"} <= restarting
    assert {name for name in restarting if name.startswith("growth")} == {
        "growth, partitions from 10 to 5,000",
        "growth, a log from 1 to 20 GB",
    }


def test_rows_are_chosen_by_a_part_of_their_names() -> None:
    assert [row.name for row in chosen_rows(["exec to the first"], full=False)] == [
        "from exec to the first acknowledged record"
    ]


def test_each_name_chooses_for_itself() -> None:
    names = [row.name for row in chosen_rows(["memory under load", "at rest"], full=False)]
    assert names == ["at rest with 30 partitions", "at rest with 3,000 partitions", "memory under load"]
    # One that is a row's name and a part of another's means that row.
    whole = "produce, broker-bound, 100 B, 1 partition, acks=1 RF 1"
    assert [row.name for row in chosen_rows([whole], full=False)] == [whole]


def test_json_and_table_tell_the_same() -> None:
    ours = [replace(figure, shares="broker 0.98") for figure in rate(150)]
    found = results("row", {"here": [ours], "2.7.2": [rate(100)]}, {"MB/s": MORE})
    properties = {"row": {"all": {}, "Barnabas": {"a": "b"}}}
    comparison = Comparison(found, {"other row": "no kcat"}, properties=properties)
    assert as_json(comparison, ABOUT)["row_properties"] == properties
    (row,) = as_json(comparison, ABOUT)["rows"]
    assert set(row) >= {
        *("row", "figure", "unit", "barnabas", "kafka", "kafka_version", "ratio", "target", "met", "limiter"),
    }
    assert (row["ratio"], row["target"], row["met"]) == (1.5, "at least 1.2 x", True)
    assert row["shares"] == {"here": ["broker 0.98"]}
    table = as_markdown(comparison, ABOUT)
    assert "| row, MB/s | 150 | 100, 2.7.2 | 1.50 x | at least 1.2 x | yes | broker, broker |" in table
    assert "What has no aim" not in table
    assert "1 of 1 aims met." in table
    assert "Left out: other row: no kcat" in table


@pytest.mark.parametrize(("power", "factor"), [(0.0, 3.0), (1.0, 0.5), (2.0, 7.0)])
def test_the_exponent_is_that_of_the_power_law(power: float, factor: float) -> None:
    assert exponent({size: factor * size**power for size in (10.0, 100.0, 5_000.0)}) == pytest.approx(power, abs=1e-6)


def test_an_exponent_is_the_better_the_less_a_rate_gives_way_and_a_cost_grows() -> None:
    def curves(falling: float, growing: float) -> list[list[Figure]]:
        points = [
            figure
            for size in (10.0, 100.0)
            for figure in (
                Figure("requests/s", size**falling, "requests/s", "broker", is_rate=True, at=size),
                Figure("CPU", size**growing, "us", at=size),
            )
        ]
        return [exponents(points)]

    found = results("growth", {"here": curves(-0.5, 0.5), "2.7.2": curves(-0.1, 0.9), "3.9.2": curves(-0.9, 0.1)}, {})
    assert [(each.figure, each.rival_version, each.rival and each.rival.median) for each in found] == [
        ("exponent of requests/s", "2.7.2", pytest.approx(-0.1)),
        ("exponent of CPU", "3.9.2", pytest.approx(0.1)),
    ]
    assert found[0].limiter == "Barnabas: broker; Kafka: broker"


def test_a_size_that_fails_ends_its_curve_and_leaves_what_was_found() -> None:
    def point(_: Run, size: int) -> list[Figure]:
        if size > 100:
            raise TimeoutError("late")
        return [Figure("PSS", size, "MB")]

    row = growth("partitions", (10, 100, 1_000), "", point, restarts=True)
    with pytest.raises(Incomplete, match="at 1,000: TimeoutError: late") as told:
        row.measure(Run(None, Path(), 1.0))
    assert [(each.name, each.at) for each in told.value.figures] == [
        ("PSS", 10),
        ("PSS", 100),
        ("exponent of PSS", None),
    ]


def test_points_of_a_curve_are_told_apart_and_drawn(tmp_path: Path) -> None:
    def curve(*values: float) -> list[Figure]:
        return [Figure("PSS", value, "MB", at=size) for size, value in zip((10.0, 100.0), values, strict=True)]

    found = results("growth, partitions", {"here": [curve(40, 50)], "2.7.2": [curve(300, 400)]}, {})
    assert [(each.at, each.barnabas.median, each.rival and each.rival.median) for each in found] == [
        (10, 40, 300),
        (100, 50, 400),
    ]
    (picture,) = draw(found, tmp_path / "of-today")
    assert picture.name.startswith("of-today-growth")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("figure", "unit", "told"),
    [
        ("time without writes", "s", "time without writes (s)"),
        ("seconds", "s", "seconds"),
        ("MB/s", "MB/s", "MB/s"),
        ("broker CPU s/GB", "s/GB", "broker CPU s/GB"),
        ("exponent of seconds", "", "exponent of seconds"),
    ],
)
def test_a_unit_is_told_unless_the_figure_says_it_as_a_word(figure: str, unit: str, told: str) -> None:
    (result,) = results("row", {"here": [[Figure(figure, 1.0, unit)]]}, {})
    assert f"| row, {told} |" in as_markdown(Comparison([result]), ABOUT)
