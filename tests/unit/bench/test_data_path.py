"""What the runs on the prototype and on a broker come to: medians, ratios, aims, and what went by sendfile."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from barnabas.protocol.compiler import encode
from barnabas.protocol.messages.fetch import FetchablePartitionResponse, FetchableTopicResponse, FetchResponse
from bench import data_path, frames, systems
from bench.data_path import READ, SENDFILE, Outcome, Run, Runs, markdown, outcome
from bench.side_by_side.clients import Shape
from bench.side_by_side.figures import Figure, Target, results
from bench.side_by_side.row import CPU_S_GB, MB_S
from bench.systems import Deployment, System

BY_CLIENT: Mapping[str, Target] = data_path.rows()[0].targets
BY_BROKER: Mapping[str, Target] = data_path.rows()[-1].targets


def one_round(rate: float, cpu: float, limiter: str = "broker") -> list[Figure]:
    return [Figure(MB_S, rate, "MB/s", limiter, is_rate=True), Figure(CPU_S_GB, cpu, "s/GB", limiter)]


def told(
    ours: Sequence[list[Figure]], theirs: Sequence[list[Figure]], targets: Mapping[str, Target] = BY_BROKER
) -> Outcome:
    runs: Runs = {"here": list(ours), "prototype": list(theirs)}
    return outcome("row", runs, targets)


def test_medians_and_spreads_of_the_rounds_are_held_against_the_prototypes() -> None:
    ours = [one_round(60, 3.0), one_round(200, 1.0), one_round(50, 2.0)]
    found = told(ours, [one_round(100, 2.0), one_round(110, 1.0), one_round(90, 1.0)])
    assert (found.rate.ratio, found.cpu.ratio, found.met) == (0.6, 2.0, True)
    assert (found.rate.barnabas.least, found.rate.barnabas.greatest) == (50, 200)
    assert found.rate.rival is not None
    assert found.rate.rival.median == 100


@pytest.mark.parametrize(("rate", "cpu", "met"), [(50, 2.0, True), (49, 2.0, False), (50, 2.1, False)])
def test_half_the_rate_and_twice_the_cpu_are_the_bounds(rate: float, cpu: float, met: bool) -> None:
    assert told([one_round(rate, cpu)], [one_round(100, 1.0)]).met is met


def test_rows_of_a_real_client_are_judged_by_the_cpu_alone() -> None:
    theirs = [one_round(100, 1.0)]
    assert told([one_round(10, 2.0)], theirs, BY_CLIENT).met is True
    assert told([one_round(100, 3.0)], theirs, BY_CLIENT).met is False


@pytest.mark.parametrize(("ours", "theirs"), [("client", "broker"), ("broker", "client")])
def test_a_rate_that_the_load_limited_is_not_judged_but_its_cost_is(ours: str, theirs: str) -> None:
    assert told([one_round(60, 1.0, ours)], [one_round(100, 1.0, theirs)]).met is None
    assert told([one_round(60, 3.0, ours)], [one_round(100, 1.0, theirs)]).met is False


def test_the_limiter_of_each_is_told() -> None:
    found = told([one_round(60, 1.0, "waiting")], [one_round(100, 1.0, "broker")])
    assert found.rate.limiter == "Barnabas: waiting; prototype: broker"


def test_a_prototype_whose_clock_of_cpu_did_not_tick_gives_no_ratio() -> None:
    found = told([one_round(60, 1.0)], [one_round(100, 0.0)])
    assert (found.cpu.ratio, found.met) == (None, None)


@pytest.mark.parametrize(("sent", "met"), [((500, 700), True), ((500, 699), False), ((0, 0), False)])
def test_all_that_a_drain_read_went_by_sendfile_in_every_round(sent: tuple[int, int], met: bool) -> None:
    read = (500, 700)
    ours = [
        [*one_round(100, 1.0), Figure(READ, of_all, "B"), Figure(SENDFILE, of_these, "B")]
        for of_all, of_these in zip(read, sent, strict=True)
    ]
    theirs = [[*one_round(100, 1.0), Figure(READ, of_all, "B")] for of_all in read]
    found = told(ours, theirs)
    assert found.met is met
    assert f"| {sent[0]} of 500 B; {sent[1]} of 700 B |" in markdown([found], None, idle_seconds=60)


def test_table_and_json_tell_the_same() -> None:
    found = told([[*one_round(150, 3.0), Figure(SENDFILE, 0, "B")]], [one_round(100, 1.0)])
    memory = results("memory", {"here": [[Figure("PSS", 80.0, "MB")]]}, {"PSS": data_path.AT_REST})[0]
    table = markdown([found], memory, idle_seconds=60)
    assert "| row (MB/s; broker CPU s/GB) | 100 | 150 | 1.50 x |" in table
    assert "| 3.00 x | 0 B | Barnabas: broker; prototype: broker | NO |" in table
    assert "80.0 MB PSS of a broker and its children after 60 s idle with 30 partitions" in table
    assert table.endswith("(at most 90 MB): yes.\n")
    row = json.loads(json.dumps(found.as_json()))
    rate, cpu = row["figures"]
    assert (rate["ratio"], rate["met"], cpu["ratio"], cpu["met"], row["met"]) == (1.5, True, 3.0, False, False)


def test_every_row_has_an_aim_for_cpu_and_those_that_no_client_limits_one_for_the_rate() -> None:
    by_client = {row.name for row in data_path.rows() if row.targets == BY_CLIENT}
    by_broker = {row.name for row in data_path.rows() if row.targets == BY_BROKER}
    assert len(by_client) + len(by_broker) == len(data_path.rows()) == 10
    assert all(name.startswith("kcat") for name in by_client)
    assert all(name.startswith(("replayed", "drained")) for name in by_broker)


def test_a_smoke_run_writes_whole_thousands_of_records() -> None:
    run = Run(System("s", 1, ()), Path(), 0.05)
    assert run.shape(Shape(30_000 * 100, 100)).records == 1000
    assert run.shape(Shape(1000, 100)).records == 1000
    assert run.shape(Shape(1_000_000_000, 1024)).records == 48_000


def test_what_a_fetch_costs_beside_its_records_is_what_the_codec_writes() -> None:
    partition = FetchablePartitionResponse(aborted_transactions=None, record_set=b"x" * 1000)
    body = encode(FetchResponse(responses=[FetchableTopicResponse("topic", [partition])]), frames.FETCH_VERSION)
    correlation_id_bytes = 4
    assert correlation_id_bytes + len(body) - 1000 == frames.fetch_overhead("topic")


def test_one_system_is_a_deployment() -> None:
    system: Deployment = System("one", 9092, (1,))
    assert (system.ports, system.bootstrap, list(system.systems())) == ({1: 9092}, "127.0.0.1:9092", [system])


def test_a_prototype_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "nothing.py"
    monkeypatch.setattr(sys, "argv", ["data_path", "--prototype", str(missing)])
    assert data_path.main() == 1
    assert f"{missing}: the prototype to compare with is not there" in capsys.readouterr().err


def test_a_row_that_is_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["data_path", "--row", "no such"])
    assert data_path.main() == 2
    assert capsys.readouterr().err == "no row has no such in its name\n"


@pytest.mark.parametrize(
    ("name", "count"), [("kcat", 6), ("replayed", 3), ("drained consume", 1), ("memory", 1), ("", 11)]
)
def test_rows_are_chosen_by_a_part_of_their_names(
    name: str, count: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["data_path", "--list", "--row", name])
    assert data_path.main() == 0
    assert len(capsys.readouterr().out.splitlines()) == count


def test_a_prototype_that_ends_is_told(tmp_path: Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text("raise SystemExit(3)\n")
    with (
        pytest.raises(RuntimeError, match="the prototype ended with 3"),
        systems.prototype(script, partitions=1, cpu=None),
    ):
        pass
