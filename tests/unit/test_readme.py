"""What README promises is what the source does."""

import re

import pytest

from broker.handlers import ALL
from tests.unit.house.source import ROOT

README = (ROOT / "README.md").read_text()


def test_the_table_of_apis_is_the_registry() -> None:
    promised = re.findall(r"^\| (\w+) \| (\d+)-(\d+) \|", README, re.MULTILINE)
    served = {handler.key.name.replace("_", ""): (handler.oldest, handler.newest) for handler in ALL}
    assert {name.upper(): (int(oldest), int(newest)) for name, oldest, newest in promised} == served


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_what_is_named_exists(name: str) -> None:
    text = (ROOT / name).read_text()
    named = re.findall(r"`((?:tests|bench|broker|barnabas|controller|replication|zk_schema|\.ci)/[\w./]*)`", text)
    targets = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert [target for target in re.findall(r"`make (\w+)`", text) if target not in targets] == []
