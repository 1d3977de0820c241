"""Rules on what code does beside computing: state that outlives a broker, clocks, dice, files, output."""

import ast
from collections.abc import Iterator

from tests.unit.house.imports import matches
from tests.unit.house.source import Module, Violation
from tests.unit.house.tables import FILES, MEMOISED, PRINTS, PURE, WORLD


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONTAINERS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
_MAKERS = _words(
    """dict list set bytearray defaultdict deque OrderedDict Counter ChainMap count cycle array WeakKeyDictionary
    WeakValueDictionary WeakSet Queue Lock RLock Event local ContextVar"""
)
_MUTATORS = _words(
    """append add update setdefault pop popitem popleft appendleft clear extend insert remove discard sort reverse
    difference_update intersection_update symmetric_difference_update"""
)
_DICE = ("random", "secrets", "uuid.uuid1", "uuid.uuid4", "os.urandom", "os.getrandom")
_CLOCKS = ("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today")
_FILE_CALLS = _words(
    """open fdopen read pread preadv write pwrite pwritev writev mkdir makedirs remove unlink rename replace rmdir
    stat listdir scandir walk truncate ftruncate fsync fdatasync link symlink chmod sendfile"""
)
_PATH_CALLS = _words("exists isfile isdir islink lexists getsize getmtime")


def _bound_names(statement: ast.stmt) -> list[tuple[str, ast.expr | None, bool]]:
    """(name, value, whether Final) of an assignment."""
    if isinstance(statement, ast.Assign):
        return [(target.id, statement.value, False) for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [(statement.target.id, statement.value, "Final" in ast.unparse(statement.annotation))]
    return []


def _is_mutable(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        function = value.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        return name in _MAKERS
    return isinstance(value, _CONTAINERS)


def _is_constant(name: str) -> bool:
    return name.isupper() or (name.startswith("__") and name.endswith("__"))


def module_state(module: Module) -> Iterator[Violation]:
    """Nothing that changes hangs on a module or a class: two brokers in one process share nothing."""
    if not module.is_product:
        return
    constants: set[str] = set()
    scopes: list[list[ast.stmt]] = [module.tree.body]
    scopes += [node.body for node in module.nodes if isinstance(node, ast.ClassDef)]
    for body in scopes:
        for statement in body:
            for name, value, final in _bound_names(statement):
                if not _is_mutable(value):
                    continue
                constants.add(name)
                if not final and not _is_constant(name):
                    yield Violation(module.path, statement.lineno, f"{name} is shared mutable state")
    for node in module.nodes:
        if isinstance(node, ast.Global):
            yield Violation(module.path, node.lineno, f"global {', '.join(node.names)}: state belongs to an object")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _changed_constants(module, node, constants)
            yield from _caches(module, node)


def _changed_constants(
    module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef, constants: set[str]
) -> Iterator[Violation]:
    inner = list(ast.walk(function))
    local = {node.arg for node in inner if isinstance(node, ast.arg)}
    local |= {node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in inner:
        changed: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            changed = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS:
            changed = node.func.value
        if isinstance(changed, ast.Name) and changed.id in constants - local:
            yield Violation(module.path, changed.lineno, f"{changed.id} belongs to the module and is changed here")


def _caches(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Violation]:
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in {"cache", "lru_cache"} and not matches(module.path, MEMOISED):
            yield Violation(module.path, function.lineno, f"{function.name} keeps a cache that outlives its broker")


def _calls(module: Module) -> Iterator[tuple[str, int]]:
    """Dotted names of the called functions of modules and of builtins, with import aliases undone.

    `from time import sleep as s; s()` is time.sleep; a method of an object that is called `random` is nothing.
    """
    imported: dict[str, str] = {}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                imported[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in module.nodes:
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        head, _, rest = name.partition(".")
        if isinstance(node, ast.Call) and "(" not in name and (head in imported or not rest):
            yield ".".join(filter(None, (imported.get(head, head), rest))), node.lineno


def clocks_and_dice(module: Module) -> Iterator[Violation]:
    """Time comes from a Clock and chance from an injected random.Random; nobody sleeps a thread."""
    is_quick_test = matches(module.path, ("tests/unit/*", "tests/contract/*"))
    lines = module.text.splitlines()
    for name, line in _calls(module):
        if name == "time.sleep" and not module.is_product and "noqa: ASYNC251 - " in lines[line - 1]:
            continue  # A test that holds the loop up on purpose, and says so.
        if name == "time.sleep" and (module.is_product or is_quick_test):
            yield Violation(module.path, line, "time.sleep: wait for an event or on the Clock")
            continue
        if not module.is_product or matches(module.path, WORLD):
            continue
        if name.startswith("time.") or name in _CLOCKS:
            yield Violation(module.path, line, f"{name}: time comes from the Clock")
        elif name != "random.Random" and any(name == dice or name.startswith(dice + ".") for dice in _DICE):
            yield Violation(module.path, line, f"{name}: chance comes from an injected random.Random")


def files(module: Module) -> Iterator[Violation]:
    """Files are touched through the disk port."""
    if not module.is_product or matches(module.path, FILES):
        return
    for name, line in _calls(module):
        head, _, last = name.rpartition(".")
        if name == "open" or (head == "os" and last in _FILE_CALLS) or (head == "os.path" and last in _PATH_CALLS):
            yield Violation(module.path, line, f"{name}: files are touched through the disk port")


def output(module: Module) -> Iterator[Violation]:
    """Only the command line prints; everybody else logs."""
    if not module.is_product or matches(module.path, PRINTS):
        return
    for name, line in _calls(module):
        if name in {"print", "pprint.pprint", "sys.stdout.write", "sys.stderr.write"}:
            yield Violation(module.path, line, f"{name}: only the command line prints")


def _described(module: Module) -> set[int]:
    """Methods of a Protocol without a body: they say what somebody else does, and do nothing."""
    methods = (
        method
        for node in module.nodes
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("Protocol") for base in node.bases)
        for method in node.body
        if isinstance(method, ast.AsyncFunctionDef)
    )
    return {
        id(method)
        for method in methods
        if all(isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) for line in method.body)
    }


def pure_bodies(module: Module, pure: tuple[str, ...] = PURE) -> Iterator[Violation]:
    """A pure module waits for nothing and opens nothing."""
    if not matches(module.path, pure):
        return
    described = _described(module)
    for node in module.nodes:
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            if id(node) not in described:
                yield Violation(module.path, node.lineno, "a pure module neither defines nor awaits coroutines")
        elif isinstance(node, ast.comprehension) and node.is_async:
            yield Violation(module.path, node.iter.lineno, "a pure module neither defines nor awaits coroutines")
    for name, line in _calls(module):
        if name in {"open", "print", "input"}:
            yield Violation(module.path, line, f"a pure module does not call {name}")
