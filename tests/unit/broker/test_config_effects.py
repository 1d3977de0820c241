"""The table of configuration keys and the tests that show what they do (tests/config_effects.toml)."""

import re
import tomllib
from pathlib import Path

import pytest

from broker.config_keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS, TOPIC_KEYS

ROOT = Path(__file__).parents[3]
TABLE: dict[str, dict[str, str]] = tomllib.loads((ROOT / "tests" / "config_effects.toml").read_text())


@pytest.mark.parametrize(("level", "keys"), [("broker", BROKER_KEYS), ("topic", TOPIC_KEYS)])
def test_every_key_that_acts_has_its_test_and_no_other_key_has_one(level: str, keys: dict[str, object]) -> None:
    acting = {key.name for key in keys.values() if key.acts}  # type: ignore[attr-defined]
    assert set(TABLE[level]) == acting


def test_every_key_that_changes_in_a_running_broker_has_a_test_that_changes_it() -> None:
    changeable = {name for name, key in {**BROKER_KEYS, **DYNAMIC_ONLY_KEYS}.items() if key.is_changeable}
    assert set(TABLE["live"]) == changeable


@pytest.mark.parametrize("test", sorted({test for rows in TABLE.values() for test in rows.values()}))
def test_a_test_of_the_table_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("key", "test"), [pytest.param(key, test, id=key) for rows in TABLE.values() for key, test in rows.items()]
)
def test_a_test_of_the_table_sets_its_key(key: str, test: str) -> None:
    text = (ROOT / test.partition("::")[0]).read_text()
    spelled = (re.escape(key), re.escape(key.replace(".", "_")))
    assert any(re.search(rf"(?<![\w.]){each}(?![\w.])", text) for each in spelled), "as a word of its own"
