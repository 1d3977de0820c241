"""Rules on imports: the direction between packages, pure modules, and libraries behind walls."""

import fnmatch
import sys
from collections.abc import Collection, Iterator, Mapping

from tests.unit.house.source import OURS, Import, Module, Violation
from tests.unit.house.tables import IMPURE_LIBRARIES, LAYERS, PURE, WALLS


def matches(path: str, patterns: Collection[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def package_of(name: str, layers: Mapping[str, tuple[str, ...]] = LAYERS) -> str | None:
    """The row of the table that a module belongs to: the longest package that holds it."""
    rows = [package for package in layers if is_within(name, package)]
    return max(rows, key=len) if rows else None


def _of_ours(module: Module) -> Iterator[Import]:
    return (each for each in module.imports() if each.module.split(".")[0] in OURS)


def layering(module: Module) -> Iterator[Violation]:
    """Imports run one way, also those that only type checkers see; product code imports neither tests nor bench."""
    if not module.is_product:
        return
    package = package_of(module.name)
    if package is None or (package == "barnabas" and module.path != "barnabas/__init__.py"):
        yield Violation(module.path, 1, f"{module.name} has no row in the table of imports")
        return
    for each in module.imports():
        if each.module.startswith("."):
            yield Violation(module.path, each.line, f"imports are absolute: {each.module}")
    for each in _of_ours(module):
        own = package_of(each.module) == package
        if not own and not any(is_within(each.module, allowed) for allowed in LAYERS[package]):
            yield Violation(module.path, each.line, f"{package} may not import {each.module}")


def purity(module: Module, pure: Collection[str] = PURE) -> Iterator[Violation]:
    """A pure module imports no library that touches the world and, of ours, only pure modules (for types, any)."""
    if not matches(module.path, pure):
        return
    for each in module.imports():
        if each.only_for_types:
            continue
        if each.module.split(".")[0] in IMPURE_LIBRARIES:
            yield Violation(module.path, each.line, f"a pure module may not import {each.module}")
    for each in _of_ours(module):
        parts = each.module.split(".")
        # `a.b.c` is module c of package a.b, or name c of module or package a.b.
        folder = "/".join(parts[:-1])
        candidates = {f"{folder}/{parts[-1]}.py", f"{folder}/{parts[-1]}/__init__.py", f"{folder}.py"}
        candidates |= {f"{folder}/__init__.py"} if not parts[-1].islower() else set()
        if not each.only_for_types and not any(matches(path, pure) for path in candidates):
            yield Violation(module.path, each.line, f"a pure module may not import {each.module}, which is not pure")


def walls(module: Module) -> Iterator[Violation]:
    """A library is imported only behind its wall, and a library without a row is imported nowhere."""
    for each in module.imports():
        top = each.module.split(".")[0]
        rows = [library for library in WALLS if is_within(each.module, library)]
        if not module.is_product:
            if any(library == "unittest.mock" for library in rows):
                yield Violation(module.path, each.line, "fakes with a contract, not mocks")
            continue
        for library in rows:
            if not matches(module.path, WALLS[library]):
                allowed = ", ".join(WALLS[library]) or "nowhere"
                yield Violation(module.path, each.line, f"{library} may be imported only in: {allowed}")
        if not rows and top and top not in OURS and top not in sys.stdlib_module_names:
            yield Violation(module.path, each.line, f"{top} has no row in the table of libraries")
