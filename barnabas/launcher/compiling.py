"""Makes the compiled copy of a checkout: `python -m barnabas.launcher.compiling`, or `make compiled`.

hatch-mypyc compiles in place, so it is given a copy of what a wheel is built from. The copy takes its name when it is
complete, and one process at a time makes one. Tests and benchmarks are not part of it: they run on it where it comes
first in Python's search path.

Exit status: 0 when the copy is there and up to date, 1 when it could not be made, 3 when there is no compiler.
"""

import argparse
import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from barnabas.launcher.compiled import COPY, STAMP, digest, is_current, stray_extensions, wheel_names
from barnabas.runtime.packages import own_root

EXIT_FAILED: Final = 1
EXIT_NO_COMPILER: Final = 3
_HOOK: Final = "HATCH_BUILD_HOOK_ENABLE_MYPYC"
_BESIDE: Final = f"{COPY}-"
"""What the names of what is not finished, and of the lock, begin with."""
_ENDINGS: Final = (signal.SIGINT, signal.SIGTERM)
_EXTENSION: Final = "#include <Python.h>\n"


class NotCompiled(Exception):
    """The copy cannot be made; the text says why."""


def what_is_missing() -> str | None:
    """What a C extension cannot be built without and this machine has not; None when it has all."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        return f"a C compiler ({compiler[0]})"
    command = [*compiler, "-fsyntax-only", f"-I{sysconfig.get_path('include')}", "-x", "c", "-"]
    tried = subprocess.run(  # noqa: S603 - the compiler that Python names, or whoever asks
        command, input=_EXTENSION, capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return f"something that {shlex.join(command)} needs for {_EXTENSION.strip()} ({tried.stderr.strip()})"
    return None


def make_copy(root: Path) -> None:
    """Copy the packages, compile them there, and put it where processes look for it. Raises NotCompiled and OSError."""
    # Beside its place, so that renaming is all that is left to do.
    with tempfile.TemporaryDirectory(prefix=_BESIDE, dir=root) as parent:
        copy, replaced = Path(parent) / "copy", Path(parent) / "replaced"
        copy.mkdir()
        for name in wheel_names(root):
            _copy(root / name, copy / name)
        sources = digest(copy)
        _compile(copy)
        (copy / STAMP).write_text(sources)
        with contextlib.suppress(FileNotFoundError):
            (root / COPY).rename(replaced)
        copy.rename(root / COPY)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)


def _compile(copy: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    build = None
    try:
        with _ending_held_back():
            # A session of its own: it starts compilers, which end with it.
            build = subprocess.Popen(  # noqa: S603 - our own interpreter
                command,
                cwd=copy,
                env={**os.environ, _HOOK: "true"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        output, _ = build.communicate()
    except BaseException:
        if build is not None:
            with build, contextlib.suppress(ProcessLookupError):
                os.killpg(build.pid, signal.SIGKILL)
        raise
    if build.returncode:
        raise NotCompiled(output)


@contextlib.contextmanager
def _ending_held_back() -> Iterator[None]:
    """What would end this process is told when what is within is done, so that whom it starts is known by then."""
    told: list[int] = []
    handlers = {number: signal.signal(number, lambda ending, _: told.append(ending)) for number in _ENDINGS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for ending in told:
        signal.raise_signal(ending)


def make_alone(root: Path) -> None:
    """As `make_copy`, if nobody has made it when it is this process's turn; and sweep what a killed one has left."""
    with (root / f"{_BESIDE}lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in root.glob(f"{_BESIDE}*/"):
            shutil.rmtree(left)
        if not is_current(root):
            make_copy(root)


def _end(number: int, _: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m barnabas.launcher.compiling", description=main.__doc__)
    parser.add_argument("--if-possible", action="store_true", help="without a compiler say so, and end with 0")
    parser.add_argument("--check", action="store_true", help="make none: say by the status whether it is up to date")
    given = parser.parse_args(arguments)
    root = own_root()
    if strays := stray_extensions(root):
        sys.stderr.write(f"{strays[0]} would run in the place of its source: remove it, or `make clean`\n")
        return EXIT_FAILED
    if is_current(root):
        sys.stderr.write(f"{COPY} is up to date\n")
        return 0
    if given.check:
        return EXIT_FAILED
    if (missing := what_is_missing()) is not None:
        sys.stderr.write(f"not compiled: {missing} is not here. Brokers run interpreted, which is slower.\n")
        return 0 if given.if_possible else EXIT_NO_COMPILER
    sys.stderr.write("compiling the modules on the way of records; takes three minutes\n")
    signal.signal(signal.SIGTERM, _end)
    try:
        make_alone(root)
    except (NotCompiled, OSError) as error:
        sys.stderr.write(f"not compiled: {error}\n")
        return EXIT_FAILED
    sys.stderr.write("brokers that start from now on run compiled; restart those that run\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
