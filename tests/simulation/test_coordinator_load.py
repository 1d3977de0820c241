"""Groups, transactions and the shipped producer in simulated clusters."""

import random
from dataclasses import replace

import pytest

from barnabas.simulation import draws as drawing
from barnabas.simulation import script
from barnabas.simulation.coordinator_load import CoordinatorLoad
from barnabas.simulation.draws import Draws, draw, schedule
from barnabas.simulation.history import History, Outcome
from barnabas.simulation.loop import SimulationLoop
from barnabas.simulation.report import line
from barnabas.simulation.trial import Trial, run_seed, run_trial

_ALL = CoordinatorLoad(
    members=2, transactors=1, copiers=1, idempotent=1, assignor="cooperative-sticky", copiers_assignor="sticky"
)


def _all_of_it(draws: Draws) -> None:
    """With internal topics that promise what the load's topics do."""
    draws.coordinators = _ALL
    for name in ("offsets.topic", "transaction.state.log"):
        draws.settings[f"{name}.num.partitions"] = "1"
        draws.settings[f"{name}.replication.factor"] = str(draws.replication_factor)
    draws.settings |= {"transaction.state.log.min.isr": str(draws.min_in_sync)}
    draws.settings |= {"min.insync.replicas": str(draws.min_in_sync)}
    if draws.syncs_each_append:
        draws.settings["log.flush.interval.messages"] = "1"


def _calmly(draws: Draws) -> None:
    draws.strikes, draws.errands_at, draws.rots_at, draws.format_errands_at = [], [], [], []
    draws.lasts_s, draws.lull_s = 60.0, (0.0, 0.0)


def test_coordinators_move_no_other_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_them(seed: str) -> Draws:
        drawn = draw(seed)
        schedule(seed, drawn)
        kept = {key: drawn.settings[key] for key in known[seed].settings} if seed in known else drawn.settings
        return replace(drawn, coordinators=CoordinatorLoad(), settings=kept)

    known: dict[str, Draws] = {}
    monkeypatch.setattr(drawing, "_COORDINATORS", 0.0)
    known = {str(seed): without_them(str(seed)) for seed in range(10)}
    monkeypatch.setattr(drawing, "_COORDINATORS", 1.0)
    assert any(draw(seed).coordinators.has_coordinators for seed in known)
    assert {seed: without_them(seed) for seed in known} == known


def test_a_script_tells_of_coordinators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "_COORDINATORS", 1.0)
    draws = draw("3")
    schedule("3", draws)
    assert draws.coordinators != CoordinatorLoad()
    assert script.loads(script.dumps("3", draws)) == ("3", draws)


def test_groups_and_transactions_do_their_work_while_their_clients_crash_pause_and_are_replaced() -> None:
    # One seed for ever: what it comes to is counted.
    seed = "2"
    draws = draw(f"{seed}.coordinators")
    _calmly(draws)
    _all_of_it(draws)
    draws.coordinators = replace(_ALL, transactors=2, copiers=2, mean_gap_s=15.0)
    schedule(f"{seed}.coordinators", draws)
    loop = SimulationLoop(random.Random(f"{seed}/loop"))  # type: ignore[abstract]
    trials: list[Trial] = []

    async def main() -> None:
        trials.append(Trial(loop, f"{seed}.coordinators", draws))
        await trials[0].run()

    run_trial(loop, main(), lambda text: trials[0].world.violate(text))  # noqa: PLW0108 - made only in `main`
    (trial,) = trials
    tally, history, count = trial.finish(), trial.world.history, trial.world.stage.count
    assert tally.passed, line(tally)
    assert count.transactions > 20
    assert count.commits > 20
    assert count.assignments > 6
    assert {each.outcome for each in history.transactions.values()} >= {Outcome.OK, Outcome.FAIL}
    assert any(one.source is not None for some in history.produces.values() for one in some)
    assert len([each for each in history.groups.reads if each.final and each.outcome is Outcome.OK]) == 2


@pytest.mark.timeout(300)
def test_all_loads_together_stand_a_storm(seed: str) -> None:
    tally = run_seed(f"{seed}.storm", change=_all_of_it)
    assert tally.passed, line(tally)


def test_a_transaction_that_nobody_asked_to_commit_is_aborted_in_the_end() -> None:
    history = History()
    asked, silent = (
        history.begin_transaction(name, 1, transactional_id="t", client="c", timeout_ms=1) for name in ("1", "2")
    )
    asked.commit_asked_at = 2
    history.settle_transactions()
    assert (asked.outcome, silent.outcome) == (Outcome.UNKNOWN, Outcome.FAIL)
