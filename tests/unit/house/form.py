"""Rules on the form of files: sizes, names, docstrings, and words that must not be left in them."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.unit.house.source import Module, Violation
from tests.unit.house.tables import FILE_LINES, FUNCTION_LINES, VAGUE_NAMES

_LEFTOVER = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|\bNotImplemented(?:Error)?\b|\bfor now\b", re.IGNORECASE)
_MACHINE_PATH = re.compile(r"(?<![\w.$}~/*-])/(?:work|root|farm|opt/wheels|home/\w+)(?:/|\b)")
_REGISTRY = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|registry\.npmjs|crates\.io|proxy\.golang\.org|docker\.io/|deb\.debian\.org"
    r"|repo1?\.maven\.|maven\.org|index-url\s*=|artifactory|nexus\.)",
    re.IGNORECASE,
)


def file_size(module: Module) -> Iterator[Violation]:
    lines = module.text.count("\n")
    if lines > FILE_LINES:
        yield Violation(module.path, lines, f"{lines} lines; files stop at {FILE_LINES}")


def function_size(module: Module) -> Iterator[Violation]:
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield Violation(module.path, node.lineno, f"{node.name} has {lines} lines; stop at {FUNCTION_LINES}")


def names(module: Module) -> Iterator[Violation]:
    """Modules and classes of the product are nouns of the domain."""
    if not module.is_product:
        return
    for part in PurePosixPath(module.path).with_suffix("").parts:
        if set(part.rstrip("s").split("_")) & set(VAGUE_NAMES):
            yield Violation(module.path, 1, f"{part} says nothing about the domain")
    for node in module.nodes:
        if isinstance(node, ast.ClassDef) and node.name.lower().rstrip("s").endswith(VAGUE_NAMES):
            yield Violation(module.path, node.lineno, f"{node.name} says nothing about the domain")


def docstrings(module: Module) -> Iterator[Violation]:
    """A module opens with what it owns."""
    if module.path.startswith(("tests/unit", "tests/contract", "tests/compatibility", "tests/differential")):
        return
    if module.text.strip() and not ast.get_docstring(module.tree):
        yield Violation(module.path, 1, "a module opens with a docstring")


def leftovers(path: str, text: str) -> Iterator[Violation]:
    """Nothing is put off in a comment: what is not built is refused by name."""
    if path.endswith((".py", ".md", ".proto", ".toml", "Makefile")) or path.startswith(".ci/"):
        yield from _lines_with(_LEFTOVER, path, text, "left over")


def machine_paths(path: str, text: str) -> Iterator[Violation]:
    yield from _lines_with(_MACHINE_PATH, path, text, "a path of one machine")


def registry_names(path: str, text: str) -> Iterator[Violation]:
    """Packages come from wherever the reader's tools are set up to look."""
    yield from _lines_with(_REGISTRY, path, text, "the name of a registry")


def _lines_with(pattern: re.Pattern[str], path: str, text: str, message: str) -> Iterator[Violation]:
    for match in pattern.finditer(text):
        yield Violation(path, text.count("\n", 0, match.start()) + 1, f"{message}: {match.group()}")
