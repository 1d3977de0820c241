"""The museum is complete, each test that it names is there, and each mutant still has what it replaces."""

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.mutants.catalogue import CLUSTER, HUNTED, MODEL, PLANS
from tests.simulation.mutants.mutant import Mutant, resolve

ROOT = Path(__file__).parents[2]
BUGS: list[dict[str, Any]] = tomllib.loads((ROOT / "tests/simulation/museum.toml").read_text())["bug"]
MUTANTS: dict[str, Mutant] = {
    **{f"model-{number}": bug for number, bug in MODEL.items()},
    **{f"seeds-{number}": bug for number, bug in CLUSTER.items()},
    **{f"plan-{number}": plan.bug for number, plan in PLANS.items()},
}

OTHERS: dict[str, Mutant] = {str(name): bug for name, bug in HUNTED.items()}


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_bug_has_its_row() -> None:
    assert [bug["number"] for bug in BUGS] == list(range(1, 65))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: str(bug["number"]))
def test_every_bug_names_tests_that_are_there(bug: dict[str, Any]) -> None:
    assert bug["tests"] or bug.get("later"), bug["title"]
    for name in bug["tests"]:
        path, function = name.split("::")
        assert function in functions_of(ROOT / path), name


def test_the_rows_name_exactly_the_mutants_that_there_are() -> None:
    named = {f"{place}-{bug['number']}" for bug in BUGS for place in bug.get("mutants", [])}
    assert named == set(MUTANTS)


@pytest.mark.parametrize("name", [*MUTANTS, *OTHERS])
def test_what_a_mutant_replaces_is_there(name: str) -> None:
    for module, function, _ in {**MUTANTS, **OTHERS}[name].patches:
        owner, attribute = resolve(module, function)
        assert callable(vars(owner)[attribute]), f"{module}.{function}"
