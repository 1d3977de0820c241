"""The rules of the house, held against every file. Tables: `house/tables.py`; reasons: CONTRIBUTING.md."""

import ast
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.support.skips import read_allowed_skips
from tests.unit.house import form, imports, tables, world
from tests.unit.house.source import GENERATED, PRODUCT, ROOT, Module, Violation, modules, texts, tracked_paths

RULES: tuple[Callable[[Module], Iterator[Violation]], ...] = (
    imports.layering,
    imports.purity,
    imports.walls,
    world.module_state,
    world.clocks_and_dice,
    world.files,
    world.output,
    world.pure_bodies,
    form.file_size,
    form.function_size,
    form.names,
    form.docstrings,
)
TEXT_RULES: tuple[Callable[[str, str], Iterator[Violation]], ...] = (
    form.leftovers,
    form.machine_paths,
    form.registry_names,
)


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    """Two million nodes of syntax trees go with this module: each later garbage collection of the process, of which
    simulated clusters ask for many, would look through them."""
    yield
    modules.cache_clear()


def nothing_in(violations: Iterable[Violation]) -> None:
    found = [str(violation) for violation in violations]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_module_keeps_the_rule(rule: Callable[[Module], Iterator[Violation]]) -> None:
    nothing_in(violation for module in modules() for violation in rule(module))


@pytest.mark.parametrize("rule", TEXT_RULES, ids=lambda rule: rule.__name__)
def test_every_file_keeps_the_rule(rule: Callable[[str, str], Iterator[Violation]]) -> None:
    # The rules and their own tests have to spell what they forbid, and nobody wrote generated code.
    exempt = [path for path in texts() if path.startswith("tests/unit/house/") or path.endswith(GENERATED)]
    nothing_in(violation for path, text in texts().items() if path not in exempt for violation in rule(path, text))


def test_every_row_of_the_tables_is_about_something_that_exists() -> None:
    paths = tracked_paths()
    assert [pattern for pattern in tables.PURE if not any(imports.matches(p, [pattern]) for p in paths)] == []
    assert [package for package in tables.LAYERS if package.replace(".", "/") + "/__init__.py" not in paths] == []


def test_what_calls_itself_pure_is_held_to_it() -> None:
    claims = [m.path for m in modules() if m.is_product and re.search(r"\bPure[.:]", ast.get_docstring(m.tree) or "")]
    assert [path for path in claims if not imports.matches(path, tables.PURE)] == []
    assert claims


def test_imports_of_packages_form_no_circle() -> None:
    reached = {
        row: {package for package in tables.LAYERS if imports.package_of(package) in tables.LAYERS[row]}
        for row in tables.LAYERS
        if tables.LAYERS[row] is not tables.ANYTHING
    }
    order: list[str] = []
    while len(order) < len(reached):
        ready = sorted(row for row in reached if row not in order and reached[row] <= {*order, row})
        assert ready, f"a circle among {sorted(set(reached) - set(order))}"
        order += ready


def test_every_package_carries_its_types() -> None:
    assert [package for package in PRODUCT if not (ROOT / package / "py.typed").is_file()] == []


def test_the_top_level_holds_what_was_agreed() -> None:
    assert {path.split("/")[0] for path in tracked_paths()} - tables.TOP_LEVEL == set()


def test_tests_of_one_name_do_not_collide() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    assert "--import-mode=importlib" in options


def test_at_most_ten_tests_may_be_skipped() -> None:
    assert len(read_allowed_skips(ROOT)) <= 10


def test_the_ci_scripts_are_executable() -> None:
    assert [path for path in tracked_paths() if path.startswith(".ci/") and not os.access(ROOT / path, os.X_OK)] == []


def _project() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[ <>=!~\[;]", requirement, maxsplit=1)[0]).lower()


def test_the_constraints_are_of_no_one_machine_and_pin_every_dependency() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert re.findall(r".*(?:file:|index-url|find-links|@ ).*", text) == []
    pinned = {_name(line) for line in text.splitlines() if line and not line.startswith((" ", "#"))}
    declared = {_name(requirement) for extra in _project().values() for requirement in extra}
    assert declared - pinned == set(), "run make lock"


def test_every_library_behind_a_wall_is_a_declared_dependency() -> None:
    declared = {_name(requirement) for extra in ("", "local", "pipeline") for requirement in _project()[extra]}
    foreign = [library for library in tables.WALLS if library.split(".")[0] not in sys.stdlib_module_names]
    walled = {_name(tables.DISTRIBUTIONS.get(library, library)) for library in foreign}
    assert walled - declared == set()


def test_every_dependency_has_a_wall_and_so_a_use() -> None:
    walled = {_name(tables.DISTRIBUTIONS.get(library, library)) for library in tables.WALLS}
    assert {_name(requirement) for requirement in _project()[""]} - walled == set()
