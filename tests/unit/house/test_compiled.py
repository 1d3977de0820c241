"""What mypyc makes something else of than Python would, or nothing, is not written in a module that is compiled."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

from barnabas.launcher.compiled import compiled_modules, stray_extensions, wheel_settings
from barnabas.runtime.packages import own_root

ROOT = own_root()
PATHS = compiled_modules(ROOT)
MODULES = {path.removesuffix(".py").replace("/", ".") for path in PATHS}
CLOSED_BY_THEIR_CALLERS = {("barnabas/storage/read.py", "search_timestamp")}
"""Who goes through it (ListOffsets) is interpreted, and closes it when it is dropped itself."""
NOT_OF_A_BROKER = ("barnabas.pipeline", "pyspark_barnabas")


def functions(path: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


@pytest.mark.parametrize("path", PATHS)
def test_a_name_of_a_caught_error_stands_for_one_type_in_a_function(path: str) -> None:
    """A compiled function gives the name the type of its first `except` and refuses the error of the next."""
    for function in functions(path):
        types: dict[str, set[str]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.ExceptHandler) and node.name and node.type:
                types.setdefault(node.name, set()).add(ast.unparse(node.type))
        twice = {name: sorted(of) for name, of in types.items() if len(of) > 1}
        assert not twice, f"{path}: {function.name}: give the errors names of their own: {twice}"


def known_to_the_checker_only(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for imported in ast.walk(node):
                if isinstance(imported, (ast.Import, ast.ImportFrom)):
                    yield from ((each.asname or each.name).split(".")[0] for each in imported.names)


@pytest.mark.parametrize("path", PATHS)
def test_a_dataclass_has_no_field_whose_type_is_not_there_when_it_is_made(path: str) -> None:
    """A compiled module looks up the types of fields, and looks for `memoryview` among its own names."""
    tree = ast.parse((ROOT / path).read_text())
    missing = {"memoryview", *known_to_the_checker_only(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(one) for one in node.decorator_list):
            for field in node.body:
                if isinstance(field, ast.AnnAssign):
                    words = set(re.findall(r"\w+", ast.unparse(field.annotation)))
                    assert not words & missing, f"{path}: {node.name}: {ast.unparse(field)}"


@pytest.mark.parametrize("path", PATHS)
def test_no_generator_has_something_to_undo_when_it_is_dropped(path: str) -> None:
    """A compiled generator that is not closed does not run what `finally` and `with` have for its end."""
    for function in functions(path):
        if (path, function.name) in CLOSED_BY_THEIR_CALLERS:
            continue
        for node in ast.walk(function):
            undoes = isinstance(node, (ast.With, ast.AsyncWith)) or (isinstance(node, ast.Try) and node.finalbody)
            yields = any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(node))
            assert not (undoes and yields), f"{path}: {function.name}: line {node.lineno}"  # type: ignore[attr-defined]


def test_nothing_compiled_stands_beside_its_source() -> None:
    """It would be imported in its place, whatever the source says."""
    assert stray_extensions(ROOT) == []


def modules() -> Iterator[ModuleType]:
    for package in wheel_settings(ROOT)["only-include"]:
        for found in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if not found.name.startswith(NOT_OF_A_BROKER) and not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def test_no_class_that_is_not_compiled_derives_from_one_that_is() -> None:
    """Python cannot make an object of such a class. Exceptions are exempt: theirs are classes of the interpreter."""
    wrong = [
        f"{kind.__module__}.{kind.__name__} derives from {base.__module__}.{base.__name__}"
        for module in modules()
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and kind.__module__ not in MODULES
        for base in kind.__mro__[1:]
        if base.__module__ in MODULES and not issubclass(kind, BaseException)
    ]
    assert wrong == []
