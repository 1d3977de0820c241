"""What a seed drew is written down and played again, whatever later seeds draw."""

import json

import pytest

from barnabas.simulation import script
from barnabas.simulation.draws import draw, schedule
from barnabas.simulation.faults import KINDS
from barnabas.simulation.trial import run_drawn, run_seed


@pytest.mark.parametrize("seed", ["1", "2", "3", "4"])
def test_what_is_written_down_is_read_back(seed: str) -> None:
    draws = draw(seed)
    schedule(seed, draws)
    assert draws.strikes
    assert script.loads(script.dumps(seed, draws)) == (seed, draws)


def test_a_script_plays_what_its_seed_did(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = draw("17")
    schedule("17", draws)
    text = script.dumps("17", draws, title="a title")
    played = run_drawn(*script.loads(text))
    assert played.digest == run_seed("17").digest
    assert script.title_of(text) == "a title"


def test_a_field_that_an_old_script_lacks_has_its_default() -> None:
    draws = draw("5")
    schedule("5", draws)
    told = json.loads(script.dumps("5", draws))
    for name in ("drift", "acks", "lull_s"):
        told["draws"].pop(name)
    _, read = script.loads(json.dumps(told))
    assert (read.drift, read.acks, read.lull_s) == ({}, (), (0.0, 0.0))


def test_a_choice_more_moves_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [draw(str(seed)) for seed in range(20)]
    monkeypatch.setitem(KINDS, "another fault", KINDS["crash"])  # type: ignore[arg-type]
    for seed, known in enumerate(before):
        drawn = draw(str(seed))
        drawn.weights.pop("another fault", None)
        assert drawn == known
