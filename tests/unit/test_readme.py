"""What README promises is what the source does."""

import re
from pathlib import Path

import pytest

from barnabas.pipeline.jobs.catalogue import JOBS
from barnabas.pipeline.jobs.config import load_config
from broker.handlers import ALL
from tests.unit.house.source import ROOT

README = (ROOT / "README.md").read_text()


def test_the_table_of_apis_is_the_registry() -> None:
    promised = re.findall(r"^\| (\w+) \| (\d+)-(\d+) \|", README, re.MULTILINE)
    served = {handler.key.name.replace("_", ""): (handler.oldest, handler.newest) for handler in ALL}
    assert {name.upper(): (int(oldest), int(newest)) for name, oldest, newest in promised} == served


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "barnabas/pipeline/README.md"])
def test_what_is_named_exists(name: str) -> None:
    text = (ROOT / name).read_text()
    named = re.findall(r"`((?:tests|bench|broker|barnabas|controller|replication|zk_schema|\.ci)/[\w./]*)`", text)
    targets = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert [target for target in re.findall(r"`make (\w+)`", text) if target not in targets] == []


def test_the_configurations_of_jobs_are_taken(tmp_path: Path) -> None:
    sections = re.split(r"^##+ ", (ROOT / "barnabas/pipeline/README.md").read_text(), flags=re.MULTILINE)
    shown = []
    for section in sections:
        for block in re.findall(r"```toml\n(.*?)```", section, re.DOTALL):
            shown.append(re.findall(r"barnabas pipeline (\w+) \w+\.toml", section)[0])
            kind, _ = JOBS[shown[-1]].load()
            file = tmp_path / f"{shown[-1]}.toml"
            file.write_text(block)
            load_config(file, [], kind)
    assert sorted(shown) == ["activity", "audit", "load", "mirror", "operations"]
