"""Java programs of the tests, compiled against the jars of one Kafka client and run.

A source is compiled once per class path into the directory that the caller gives. Nothing is kept between runs.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.kafka_jars import java_command

_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_COMPILE_SECONDS = 60.0


class JavaFailed(Exception):
    """A Java program or the compiler ended with another status than 0. Carries its output."""


def compile_java(source: Path, *, jars: str, output: Path) -> str:
    """Compile one source file and return the class path that runs it."""
    output.mkdir(parents=True, exist_ok=True)
    _run([java_command("javac"), "--release", "11", "-cp", jars, "-d", str(output), str(source)], _COMPILE_SECONDS)
    return f"{output}{os.pathsep}{jars}"


def run_java(class_path: str, main_class: str, arguments: Sequence[str], *, timeout_seconds: float = 100.0) -> str:
    """Run a main class to its end and return what it wrote, errors included."""
    return _run([java_command(), *_OPTIONS, "-cp", class_path, main_class, *arguments], timeout_seconds)


def _run(command: list[str], timeout_seconds: float) -> str:
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_seconds,
        check=False,
    )
    output = result.stdout.decode(errors="replace")
    if result.returncode != 0:
        raise JavaFailed(f"{command[0]} ended with {result.returncode}:\n{output[-4000:]}")
    return output
