"""What mypyc makes something else of than Python would, or nothing, is not written in a module that is compiled."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
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


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def errors_of_two_types(tree: ast.Module) -> Iterator[str]:
    """A compiled function gives a caught error's name the type of its first `except`, and refuses the next one's."""
    for function in functions(tree):
        types: dict[str, set[str]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.ExceptHandler) and node.name and node.type:
                types.setdefault(node.name, set()).add(ast.unparse(node.type))
        for name, of in types.items():
            if len(of) > 1:
                yield f"{function.name}: {name} is {' and '.join(sorted(of))}: give the errors names of their own"


def fields_of_unknown_types(tree: ast.Module) -> Iterator[str]:
    """A compiled module looks up the types of fields when it makes a dataclass, `memoryview` among its own names."""
    missing = {"memoryview", *_known_to_the_checker_only(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(one) for one in node.decorator_list):
            for field in node.body:
                if isinstance(field, ast.AnnAssign):
                    words = set(re.findall(r"\w+", ast.unparse(field.annotation)))
                    if words & missing:
                        yield f"{node.name}: {ast.unparse(field)}"


def _known_to_the_checker_only(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for imported in ast.walk(node):
                if isinstance(imported, (ast.Import, ast.ImportFrom)):
                    yield from ((each.asname or each.name).split(".")[0] for each in imported.names)


def generators_with_an_end(tree: ast.Module) -> Iterator[str]:
    """A compiled generator that is dropped and not closed does not run what `finally` and `with` have for its end."""
    for function in functions(tree):
        for node in ast.walk(function):
            has_end = isinstance(node, (ast.With, ast.AsyncWith)) or (isinstance(node, ast.Try) and node.finalbody)
            if has_end and any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(node)):
                yield f"{function.name}: a `{type(node).__name__.lower()}` around a `yield`"


RULES = (errors_of_two_types, fields_of_unknown_types, generators_with_an_end)
Rule = Callable[[ast.Module], Iterator[str]]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("path", PATHS)
def test_what_is_compiled_keeps_the_rule(path: str, rule: Rule) -> None:
    found = list(rule(ast.parse((ROOT / path).read_text())))
    assert [line for line in found if (path, line.split(":")[0]) not in CLOSED_BY_THEIR_CALLERS] == []


PLANTED: list[tuple[Rule, str]] = [
    (
        errors_of_two_types,
        "def f():\n try: g()\n except OSError as e: h(e)\n try: g()\n except ValueError as e: h(e)",
    ),
    (errors_of_two_types, "async def f():\n try: g()\n except A as e: h(e)\n except (A, B) as e: h(e)"),
    (fields_of_unknown_types, "@dataclass\nclass A:\n data: memoryview | None"),
    (
        fields_of_unknown_types,
        "if TYPE_CHECKING:\n from x import Log\n@dataclass(slots=True)\nclass A:\n log: 'Log'",
    ),
    (
        fields_of_unknown_types,
        "if typing.TYPE_CHECKING:\n import socket\n@dataclass\nclass A:\n peer: list[socket.socket]",
    ),
    (generators_with_an_end, "def f():\n try:\n  yield 1\n finally: g()"),
    (generators_with_an_end, "def f():\n with g():\n  x = yield from h()"),
    (generators_with_an_end, "async def f():\n async with g():\n  yield 1"),
]
FINE: list[tuple[Rule, str]] = [
    (
        errors_of_two_types,
        "def f():\n try: g()\n except A as e: h(e)\ndef k():\n try: g()\n except B as e: h(e)",
    ),
    (fields_of_unknown_types, "from x import Log\n@dataclass\nclass A:\n log: Log\nclass B:\n data: memoryview"),
    (generators_with_an_end, "def f():\n try:\n  g()\n finally: h()\n yield 1"),
    (generators_with_an_end, "def f():\n try:\n  yield 1\n except OSError: h()"),
]


@pytest.mark.parametrize(("rule", "source"), PLANTED)
def test_what_breaks_a_rule_is_found(rule: Rule, source: str) -> None:
    assert list(rule(ast.parse(source)))


@pytest.mark.parametrize(("rule", "source"), FINE)
def test_what_is_fine_is_not_found(rule: Rule, source: str) -> None:
    assert not list(rule(ast.parse(source)))


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
