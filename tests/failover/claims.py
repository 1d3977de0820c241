"""Plays what Barnabas claims of failures and shows what was seen: `python -m tests.failover.claims CLAIM...`.

    kills       the leader is killed, 50 times in a row, under at least 5 000 records a second
    terminates  the leader is ended by SIGTERM, 10 times
    power       the power of one broker is cut, 20 times
    power-all   the power of all brokers is cut, 5 times, with log.flush.interval.messages=1
    stall       one log directory stalls for 100 ms a sync: the other's records wait less than twice as long
    exactly-once
                1 000 000 records are copied in transactions, by members of a group and outside of one, while brokers,
                coordinators and clients are killed, stopped and paused: each copy has each record once
    load        2 000 000 records are loaded from a topic into a table, 5 times, while Spark's workers, the driver, the
                broker and all of them are killed, 30 times in all, each between a batch's plan and its commit: the
                table has each record once

Each but the last two has a world of its own: a session timeout of 6 s, ticks of 1 s, idempotent producers with acks=all
and, but for the stall, RF 3 and min ISR 2. What does not hold is listed at the end, and the status is 1. `--json`
writes all to a file.
"""

import argparse
import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.failover import exactly_once, stall
from tests.failover.load.clients import Kind
from tests.failover.world import isolation
from tests.failover.world.agent import finish
from tests.failover.world.broker_node import SESSION_TIMEOUT_MS
from tests.failover.world.disk_faults import CutPower
from tests.failover.world.drill import ISR_SECONDS, Drill, LoadPlan, Outcome
from tests.failover.world.fault import Fault, Role
from tests.failover.world.process_faults import Kill, Terminate
from tests.failover.world.world import World, WorldPlan
from tests.pipeline.load import kill_story

_INSIDE: Final = "BARNABAS_CLAIM_WORLD"
_STALL: Final = "stall"
_STALL_SECONDS: Final = 20.0
_EXACTLY_ONCE: Final = "exactly-once"
_COPIED: Final = exactly_once.Plan(records=1_000_000, rate=3000, most=1000, most_open=90_000)
_LOAD: Final = "load"
_LOAD_KILLS: Final = 30
_LOAD_RUNS: Final = 5
_LOADED: Final = 2_000_000
_MOST_TIMES: Final = 2.0
PARTITIONS: Final = 12
_ROLES: Final = (Role.LEADER, Role.LEADER, Role.FOLLOWER, Role.CONTROLLER)


@dataclass(frozen=True, slots=True)
class Claim:
    """What is played how often under which load, and what must be seen. `resumes_within_ms` is of each fault."""

    count: int
    rate: int
    fault: Callable[[int, random.Random], Fault]
    resumes_within_ms: int
    least_rate: int = 0
    least_acknowledged: int = 0
    disk: str = "memory"
    loses_bytes: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


CLAIMS: Final[Mapping[str, Claim]] = {
    "kills": Claim(
        50,
        6500,
        lambda number, drawn: Kill(Role.LEADER, partition=drawn.randrange(PARTITIONS), at_once=number % 5 == 4),
        SESSION_TIMEOUT_MS + 2000,
        least_rate=5000,
        least_acknowledged=2_000_000,
    ),
    "terminates": Claim(
        10,
        5500,
        lambda number, drawn: Terminate(Role.LEADER, partition=drawn.randrange(PARTITIONS)),
        1000,
        least_rate=5000,
    ),
    "power": Claim(
        20,
        5500,
        lambda number, drawn: CutPower(drawn.choice(_ROLES), at_once=number % 2 == 1),
        SESSION_TIMEOUT_MS + 2000,
        disk="ext4",
        loses_bytes=True,
    ),
    "power-all": Claim(
        5,
        2000,
        lambda number, drawn: CutPower(None),
        60_000,
        disk="ext4",
        settings={"log.flush.interval.messages": "1"},
    ),
}


@dataclass(slots=True)
class Report:
    """What one claim showed; `broken` says what did not hold."""

    claim: str
    seed: int
    outcomes: list[Outcome] = field(default_factory=list)
    verdict: dict[str, Any] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)


_ALL: Final = (*CLAIMS, _STALL, _EXACTLY_ONCE, _LOAD)


def play(name: str, *, count: int | None, seed: int, directory: Path) -> Report:
    """Play a claim, in a world of its own."""
    if name == _STALL:
        return play_stall(seed, directory)
    if name == _EXACTLY_ONCE:
        return play_exactly_once(seed, directory, count)
    if name == _LOAD:
        return play_load(seed, directory, count)
    claim = CLAIMS[name]
    drawn = random.Random(seed)
    report = Report(name, seed)
    plan = WorldPlan(directory, isolated=True, disk=claim.disk, disk_bytes=2 << 30, settings=claim.settings)
    with World(plan) as world:
        drill = Drill(
            world, [LoadPlan(Kind.CONFLUENT, claim.rate, PARTITIONS, topic="claims")], reads_along=name != "kills"
        )
        try:
            drill.start()
            for number in range(count or claim.count):
                outcome = drill.play(claim.fault(number, drawn))
                report.outcomes.append(outcome)
                print(_row(number, outcome), flush=True)
            _make_up(drill, 0 if count else claim.least_acknowledged)
            report.verdict = finish(world, drill, [Kind.CONFLUENT_READER])
        except AssertionError as error:
            report.broken.append(f"{name}: {error}")
        finally:
            drill.kill_clients()
    report.broken += broken(name, claim, report, whole=count is None)
    return report


def play_stall(seed: int, directory: Path) -> Report:
    """The claim that is about one broker's two disks."""
    report = Report(_STALL, seed)
    seen = stall.play(directory, seconds=_STALL_SECONDS)
    report.verdict = {**dataclasses.asdict(seen), "factor": round(seen.factor, 2)}
    report.broken += seen.findings
    if seen.factor >= _MOST_TIMES:
        report.broken.append(f"{_STALL}: the other directory's p99 grew by {seen.factor:.2f}")
    return report


def play_exactly_once(seed: int, directory: Path, count: int | None) -> Report:
    """The claim about transactions: faults until all is copied, or so many faults and what was sent by then."""
    report = Report(_EXACTLY_ONCE, seed)
    played = 0

    def goes_on(stage: exactly_once.Stage) -> str | None:
        nonlocal played
        played += 1
        return None if stage.is_copied or played - 1 == count else stage.random.choice(exactly_once.DRAWN)

    try:
        seen = exactly_once.play(directory, _COPIED, (), seed=seed, goes_on=goes_on)
    except AssertionError as error:
        report.broken.append(f"{_EXACTLY_ONCE}: {error}")
        return report
    report.verdict = dataclasses.asdict(seen)
    report.broken += seen.findings
    if count is None and seen.records < _COPIED.records:
        report.broken.append(f"{_EXACTLY_ONCE}: {seen.records} records were copied")
    return report


def play_load(seed: int, directory: Path, count: int | None) -> Report:
    """The claim about loads: runs of 6 kills each, Delta and Parquet in turn, or one run of so many kills."""
    report = Report(_LOAD, seed)
    drawn = random.Random(seed)
    kills = [_LOAD_KILLS // _LOAD_RUNS] * _LOAD_RUNS if count is None else [count]
    runs: list[dict[str, Any]] = []
    for number, wanted in enumerate(kills):
        victims = [*kill_story.VICTIMS, *(drawn.choice(kill_story.VICTIMS) for _ in range(wanted))][:wanted]
        drawn.shuffle(victims)
        kind = ("delta", "parquet")[number % 2]
        plan = kill_story.Plan(_LOADED, batch=100_000, victims=victims, kind=kind)
        folder = directory / str(number)
        folder.mkdir()
        try:
            seen = kill_story.play(folder, plan, seed=seed + number, tell=lambda text: print(f"  {text}", flush=True))
        except AssertionError as error:
            report.broken.append(f"{_LOAD}, run {number}: {error}")
            continue
        print(f"{kind}: {seen}", flush=True)
        runs.append(dataclasses.asdict(seen))
        report.broken += [f"{_LOAD}, run {number}: {text}" for text in seen.findings]
        if not seen.findings:
            shutil.rmtree(folder)
    faults = [each for seen in runs for each in seen.pop("kills")]
    report.verdict = {"rows": sum(each["rows"] for each in runs), "runs": runs, "faults": faults}
    if count is None and len(faults) < _LOAD_KILLS:
        report.broken.append(f"{_LOAD}: {len(faults)} kills")
    return report


def _make_up(drill: Drill, least: int) -> None:
    """Go on until so many records are acknowledged."""
    missing = least - drill.follower.acknowledged
    if missing > 0:
        drill.follower.await_acknowledged(missing, seconds=600)


def broken(name: str, claim: Claim, report: Report, *, whole: bool) -> list[str]:
    """What of the claim does not hold."""
    found = []
    for number, outcome in enumerate(report.outcomes, start=1):
        if outcome.partitions and not outcome.pending:
            found.append(f"{name} {number}: no acknowledgement was pending")
        if outcome.resumed_ms is not None and outcome.resumed_ms > claim.resumes_within_ms:
            found.append(f"{name} {number}: writes resumed after {outcome.resumed_ms} ms")
        if outcome.silent_ms is not None and outcome.silent_ms > claim.resumes_within_ms:
            found.append(f"{name} {number}: nothing was acknowledged for {outcome.silent_ms} ms")
        if outcome.isr_seconds > ISR_SECONDS:
            found.append(f"{name} {number}: full ISR after {outcome.isr_seconds} s")
    if claim.loses_bytes and not any(outcome.lost_bytes for outcome in report.outcomes):
        found.append(f"{name}: no byte of a log was lost, so nothing was tried")
    if not report.verdict:
        return [*found, f"{name}: not played to the end"]
    found += [f"{name}: {text}" for text in report.verdict["findings"]]
    if report.verdict["given_up"]:
        found.append(f"{name}: {report.verdict['given_up']} records were given up")
    if report.verdict["rate"] < claim.least_rate:
        found.append(f"{name}: {report.verdict['rate']} records a second")
    if whole and report.verdict["acknowledged"] < claim.least_acknowledged:
        found.append(f"{name}: {report.verdict['acknowledged']} records were acknowledged")
    return found


_HEAD: Final = (
    f"{'':>4} {'broker':>6} {'led':>4} {'pending':>8} {'resumed ms':>11} {'silent ms':>10} {'full ISR s':>11}  what"
)


def _row(number: int, outcome: Outcome) -> str:
    resumed, silent = ("" if each is None else each for each in (outcome.resumed_ms, outcome.silent_ms))
    broker = "all" if outcome.broker is None else outcome.broker
    return (
        f"{number + 1:>4} {broker:>6} {outcome.partitions:>4} {outcome.pending:>8} {resumed:>11} {silent:>10} "
        f"{outcome.isr_seconds:>11}  {outcome.fault}"
    )


def summary(report: Report) -> str:
    """The last lines about a claim."""
    resumed = sorted(outcome.resumed_ms for outcome in report.outcomes if outcome.resumed_ms is not None)
    verdict = {name: value for name, value in report.verdict.items() if name != "findings"}
    count = len(report.outcomes) or len(verdict.pop("faults", []))
    lines = [f"{report.claim}, seed {report.seed}: {count} faults, {verdict}"]
    if resumed:
        silent = sorted(outcome.silent_ms for outcome in report.outcomes if outcome.silent_ms is not None)
        lines.append(f"writes resumed after {resumed[0]} .. {resumed[len(resumed) // 2]} .. {resumed[-1]} ms")
        lines.append(
            f"nothing was acknowledged for at most {silent[0]} .. {silent[len(silent) // 2]} .. {silent[-1]} ms"
        )
        lines.append(f"full ISR after at most {max(outcome.isr_seconds for outcome in report.outcomes)} s")
    return "\n".join([*lines, *(f"BROKEN {text}" for text in report.broken)])


def _inside(arguments: argparse.Namespace) -> int:
    """Plays one claim; this is the first process of its world."""
    (name,) = arguments.claims
    print(f"\n{name}\n{_HEAD if name in CLAIMS else ''}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix=f"barnabas-claim-{name}-"))
    report = play(name, count=arguments.count, seed=arguments.seed, directory=directory)
    print(summary(report))
    if report.broken:
        print(f"what it left is in {directory}")
    else:
        shutil.rmtree(directory)
    if arguments.json:
        arguments.json.write_text(json.dumps(dataclasses.asdict(report), indent=1))
    return int(bool(report.broken))


def _outside(arguments: argparse.Namespace) -> int:
    """Plays each claim in a world of its own and puts the reports together."""
    reports: list[Any] = []
    status = 0
    for name in arguments.claims or _ALL:
        real_root = name == _STALL or (name in CLAIMS and CLAIMS[name].disk == "ext4")
        is_isolated = name not in (_EXACTLY_ONCE, _LOAD)
        reason = (isolation.why_no_disks() if real_root else isolation.why_no_network()) if is_isolated else ""
        if reason:
            print(f"{name}: cannot be played here: {reason}")
            status = 1
            continue
        with tempfile.NamedTemporaryFile(suffix=".json") as part:
            count = [f"--count={arguments.count}"] if arguments.count else []
            program = [sys.executable, "-m", "tests.failover.claims", name, f"--json={part.name}", *count]
            program = [*program, f"--seed={arguments.seed}"]
            program = isolation.command(program, real_root=real_root) if is_isolated else program
            ended = subprocess.run(program, env={**os.environ, _INSIDE: "yes"}, stdin=subprocess.DEVNULL, check=False)
            status = status or ended.returncode
            text = Path(part.name).read_text()
            reports += [json.loads(text)] if text else []
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(reports, indent=1))
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claims", nargs="*", choices=[[], *_ALL], metavar="CLAIM", default=[])
    parser.add_argument("--count", type=int, help="play each so often, and ask nothing of the total")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    return _inside(given) if os.environ.get(_INSIDE) else _outside(given)


if __name__ == "__main__":
    sys.exit(main())
