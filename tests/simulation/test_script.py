"""What a seed drew is written down and played again, whatever later seeds draw."""

import json
from dataclasses import replace

import pytest

from barnabas.simulation import draws as drawing
from barnabas.simulation import script
from barnabas.simulation.draws import Draws, draw, schedule
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
    for name in ("drift", "acks", "lull_s", "rot_gap_s", "format_errands"):
        told["draws"].pop(name)
    for name in ("rots_at", "format_errands_at"):
        told.pop(name)
    _, read = script.loads(json.dumps(told))
    assert (read.drift, read.acks, read.lull_s) == ({}, (), (0.0, 0.0))
    assert (read.rot_gap_s, read.format_errands) == (0.0, ())
    assert read.rots_at == read.format_errands_at == [], "what nobody drew did not happen"


def test_a_choice_more_moves_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [draw(str(seed)) for seed in range(20)]
    monkeypatch.setitem(KINDS, "another fault", KINDS["crash"])  # type: ignore[arg-type]
    for seed, known in enumerate(before):
        drawn = draw(str(seed))
        drawn.weights.pop("another fault", None)
        assert drawn == known


def test_rot_old_clients_and_formats_move_no_other_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_them(seed: str) -> Draws:
        drawn = draw(seed)
        schedule(seed, drawn)
        assert bool(drawn.rots_at) == bool(drawn.format_errands_at) == bool(drawn.old_producers) == (share > 0)
        settings = {key: value for key, value in drawn.settings.items() if not key.startswith("barnabas.scrub")}
        # Where something rots, segments are closed in every topic.
        topic_settings = {"segment.bytes": "5000"} | drawn.topic_settings
        drawn = replace(drawn, settings=settings, topic_settings=topic_settings, rot_gap_s=0.0, rots_at=None)
        return replace(drawn, old_producers=0, old_readers=0, format_errands=(), format_errands_at=None)

    drawn = []
    for share in (0.0, 1.0):
        for name in ("_ROT", "_OLD_CLIENTS", "_FORMAT_ERRANDS"):
            monkeypatch.setattr(drawing, name, share)
        drawn.append([without_them(str(seed)) for seed in range(10)])
    assert drawn[0] == drawn[1]
