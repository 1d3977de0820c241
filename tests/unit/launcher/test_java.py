from pathlib import Path

import pytest

from barnabas.launcher.java import JavaMissing, find_java, read_major_version


def java_below(folder: Path) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_bytes(b"")
    java.chmod(0o755)
    return java


def test_java_home_comes_before_path_and_path_before_the_package(tmp_path: Path) -> None:
    home, on_path, packaged = (java_below(tmp_path / name) for name in ("home", "path", "package"))
    path = str(on_path.parent)
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": path}, packaged=packaged) == home
    assert find_java({"PATH": path}, packaged=packaged) == on_path
    assert find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}, packaged=packaged) == packaged


def test_without_any_java_the_error_names_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match=r"JAVA_HOME is .*gone"):
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}, packaged=tmp_path / "none")


def test_the_package_can_be_left_out(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match="JAVA_HOME is not set, and PATH has no java"):
        find_java({"PATH": ""}, packaged=java_below(tmp_path), or_packaged=False)


def java_that_says(folder: Path, text: str) -> Path:
    java = java_below(folder)
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    return java


@pytest.mark.parametrize(
    ("text", "version"),
    [('openjdk version "17.0.9" 2023-10-17', 17), ('java version "1.8.0_392"', 8), ('openjdk version "25" 2025', 25)],
)
def test_a_java_tells_its_version(tmp_path: Path, text: str, version: int) -> None:
    assert read_major_version(java_that_says(tmp_path, text)) == version


def test_what_is_no_java_is_told(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match="does not tell its version: 'moo"):
        read_major_version(java_that_says(tmp_path / "cow", "moo"))
    with pytest.raises(JavaMissing, match="cannot be run"):
        read_major_version(tmp_path / "none")
