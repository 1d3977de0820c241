"""The compiled copy of a checkout: `.compiled`, in which mypyc has made the modules on the way of records into C.

It is a snapshot. Processes take it only while every source of the checkout is what it was when the copy was made, and
the interpreter is the same; otherwise, and where there is no copy, they run interpreted from the checkout itself. That
is right as well, and slower. Which modules are compiled stands in pyproject.toml. Where our packages are installed no
copy is beside them: a wheel has its compiled modules, if it has any, in their places.
"""

import hashlib
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from barnabas.runtime.packages import own_root

COPY: Final = ".compiled"
STAMP: Final = "sources.sha256"
_PROJECT: Final = "pyproject.toml"
_VERSIONS: Final = "constraints.txt"
"""Among them the compiler's."""
_EXTENSIONS: Final = frozenset({".so", ".pyd"})


def packages_root() -> Path:
    """The directory that new processes are to take our packages from: the compiled copy where it is up to date."""
    root = own_root()
    return root / COPY if is_current(root) else root


def is_current(root: Path) -> bool:
    """Whether the checkout has a compiled copy of its sources as they are now, for this interpreter."""
    try:
        return (root / COPY / STAMP).read_text() == digest(root)
    except (OSError, tomllib.TOMLDecodeError):
        return False


def digest(root: Path) -> str:
    """What a copy depends on, as hexadecimal digits: all files of the packages, pinned versions, the interpreter's ABI.

    All, since constants and the layout of classes go from one module into the compiled code of another. Raises OSError
    and TOMLDecodeError.
    """
    found = hashlib.sha256(str(sysconfig.get_config_var("EXT_SUFFIX")).encode())
    for path in [root / _PROJECT, root / _VERSIONS, *_package_files(root)]:
        if path.suffix not in _EXTENSIONS:
            found.update(f"\n{path.relative_to(root)}\n".encode())
            found.update(path.read_bytes())
    return found.hexdigest()


def stray_extensions(root: Path) -> list[Path]:
    """Compiled modules beside their sources, in whose place they would run whatever the sources say."""
    return [path for path in _package_files(root) if path.suffix in _EXTENSIONS]


def _package_files(root: Path) -> Iterator[Path]:
    for package in wheel_settings(root)["only-include"]:
        found = (path for path in (root / package).rglob("*") if path.parent.name != "__pycache__")
        yield from sorted(path for path in found if path.is_file())


def wheel_settings(root: Path) -> dict[str, Any]:
    """How the wheel is built: a table of pyproject.toml."""
    project = tomllib.loads((root / _PROJECT).read_text(encoding="utf-8"))
    settings: dict[str, Any] = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    return settings


def wheel_names(root: Path) -> list[str]:
    """What of the checkout a wheel is built from, as names in its root."""
    return [_PROJECT, _VERSIONS, "README.md", "LICENSE", *wheel_settings(root)["only-include"]]


def compiled_modules(root: Path) -> list[str]:
    """The paths, from the root, of the modules that are compiled."""
    return [name.removeprefix("/") for name in wheel_settings(root)["hooks"]["mypyc"]["include"]]
