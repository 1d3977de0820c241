"""The files of the project as the rules of the house see them: text, syntax tree, place in the tree.

Tracked files and new ones that are not ignored are read once. Generated code is known by its name and held to nothing.
"""

import ast
import functools
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[3]
PRODUCT: Final = (
    "barnabas",
    "broker",
    "controller",
    "pyspark_barnabas",
    "pyspark_barnabas_segments",
    "replication",
    "zk_schema",
)
OURS: Final = (*PRODUCT, "tests", "bench")
GENERATED: Final = ("_pb2.py", "_pb2_grpc.py", "/written_codecs.py")
LARGEST_TEXT_BYTES: Final = 1_000_000


class Violation(NamedTuple):
    """A place that breaks a rule, and how."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


class Import(NamedTuple):
    """One name that a module imports. `module` is the longest dotted prefix that may be a module."""

    module: str
    line: int
    only_for_types: bool


@dataclass(slots=True)
class Module:
    """A Python file. `name` is dotted; a package is named by its folder."""

    path: str
    text: str
    tree: ast.Module = field(init=False)
    nodes: list[ast.AST] = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.text, self.path)
        self.nodes = list(ast.walk(self.tree))

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def is_product(self) -> bool:
        return self.path.split("/")[0] in PRODUCT

    @property
    def is_generated(self) -> bool:
        return self.path.endswith(GENERATED)

    def imports(self) -> list[Import]:
        """Every import, wherever it stands; `from a import b` gives `a.b`, which may be a module or a name in one."""
        typing_only = {
            id(inner)
            for node in self.nodes
            if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
            for statement in node.body
            for inner in ast.walk(statement)
        }
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
            else:
                continue
            found += [Import(name, node.lineno, id(node) in typing_only) for name in names]
        return found


def tracked_paths() -> list[str]:
    """Every file that is, or is about to be, in the repository; without git (a source archive) every file there is."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        paths = listed.stdout.splitlines()
    else:
        paths = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if ".venv" not in path.parts]
    return sorted(path for path in set(paths) if (ROOT / path).is_file())


@functools.cache
def texts() -> dict[str, str]:
    """The text files by path; binary and very large ones (captured data) are left out."""
    found = {}
    for path in tracked_paths():
        data = (ROOT / path).read_bytes()
        if len(data) > LARGEST_TEXT_BYTES or b"\0" in data:
            continue
        found[path] = data.decode(errors="replace")
    return found


@functools.cache
def modules() -> tuple[Module, ...]:
    """The Python files that people wrote."""
    found = (Module(path, text) for path, text in texts().items() if path.endswith(".py"))
    return tuple(module for module in found if not module.is_generated)
