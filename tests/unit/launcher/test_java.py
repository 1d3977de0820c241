from pathlib import Path

import pytest

from barnabas.launcher.java import JavaMissing, find_java


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
