"""Makes the compiled copy of a checkout: `python -m barnabas.launcher.compiling`, or `make compiled`.

hatch-mypyc compiles in place, so it is given a copy of what a wheel is built from. The copy takes its name when it is
complete. Tests and benchmarks are not part of it: they run on it where it comes first in Python's search path.

Exit status: 0 when the copy is there and up to date, 1 when the compiler failed, 3 when there is no compiler.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from barnabas.launcher.compiled import COPY, STAMP, digest, is_current, own_root, wheel_names

EXIT_FAILED: Final = 1
EXIT_NO_COMPILER: Final = 3
_HOOK: Final = "HATCH_BUILD_HOOK_ENABLE_MYPYC"


def what_is_missing() -> str | None:
    """What a C extension cannot be built without and this machine has not; None when it has all."""
    compiler = str(sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(os.environ.get("CC", compiler).split()[0]) is None:
        return f"a C compiler ({compiler})"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return f"Python's headers ({sysconfig.get_path('include')}/Python.h)"
    return None


def make_copy(root: Path) -> None:
    """Copy the packages, compile them there, and put it where processes look for it.

    Raises:
        subprocess.CalledProcessError: it cannot be compiled; its `stderr` says why.
    """
    # Beside its place, so that renaming is all that is left to do.
    with tempfile.TemporaryDirectory(prefix=f"{COPY}-", dir=root) as parent:
        copy = Path(parent) / "copy"
        copy.mkdir()
        for name in wheel_names(root):
            _copy(root / name, copy / name)
        sources = digest(copy)
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel"],
            cwd=copy,
            env={**os.environ, _HOOK: "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        (copy / STAMP).write_text(sources)
        shutil.rmtree(root / COPY, ignore_errors=True)
        copy.rename(root / COPY)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m barnabas.launcher.compiling", description=main.__doc__)
    parser.add_argument("--if-possible", action="store_true", help="without a compiler say so, and end with 0")
    given = parser.parse_args(arguments)
    root = own_root()
    if is_current(root):
        return 0
    if (missing := what_is_missing()) is not None:
        sys.stderr.write(f"not compiled: {missing} is not here. Brokers run interpreted, which is slower.\n")
        return 0 if given.if_possible else EXIT_NO_COMPILER
    sys.stderr.write("compiling the modules on the way of records; takes a minute\n")
    try:
        make_copy(root)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(error.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
