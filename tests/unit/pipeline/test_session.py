"""What is said where Spark could not start, before it is started."""

import sys
from pathlib import Path

import pytest

from barnabas.pipeline.session import SparkUnavailable, check_java, use_this_python


def java_of(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


def test_a_java_that_is_new_enough_will_do(tmp_path: Path) -> None:
    java = java_of(tmp_path, "17.0.9")
    check_java({"PATH": str(java.parent)})
    check_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_no_java_is_told_with_what_to_do() -> None:
    with pytest.raises(SparkUnavailable, match=r"PATH has no java\. Spark needs Java 17 or later; .*apt-get install"):
        check_java({"PATH": ""})


def test_an_old_java_is_told_with_its_version(tmp_path: Path) -> None:
    java = java_of(tmp_path, "11.0.2")
    with pytest.raises(SparkUnavailable, match=r"bin/java is Java 11; set JAVA_HOME to a later one"):
        check_java({"PATH": str(java.parent)})


def test_a_java_home_without_java_is_told_though_path_has_one(tmp_path: Path) -> None:
    java = java_of(tmp_path / "other", "17")
    with pytest.raises(SparkUnavailable, match=r"has no bin/java, and Spark takes no other one"):
        check_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(java.parent)})


def test_workers_are_this_python_unless_another_was_chosen() -> None:
    environment = {"PYSPARK_PYTHON": "python-of-theirs"}
    use_this_python(environment)
    assert environment == {"PYSPARK_PYTHON": "python-of-theirs", "PYSPARK_DRIVER_PYTHON": sys.executable}
