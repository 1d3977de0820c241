"""What a user installs: the wheel's content, its metadata, and that it works away from the checkout."""

import email
import re
import subprocess
import sys
import zipfile
from email.message import Message
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.unit.house.source import PRODUCT, ROOT, tracked_paths


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    [built] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")))
    return Path(built)


@pytest.fixture(scope="module")
def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_holds_the_packages_and_nothing_else(contents: set[str]) -> None:
    tops = {name.split("/")[0] for name in contents}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PRODUCT)


def test_every_file_of_the_product_is_in_the_wheel(contents: set[str]) -> None:
    assert {path for path in tracked_paths() if path.split("/")[0] in PRODUCT} - contents == set()


def test_every_package_in_the_wheel_is_typed(contents: set[str]) -> None:
    assert {f"{package}/py.typed" for package in PRODUCT} <= contents


def test_the_licence_travels_with_the_wheel(contents: set[str], metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert [name for name in contents if name.endswith("/licenses/LICENSE")]


def test_the_metadata_says_what_was_agreed(metadata: Message) -> None:
    assert metadata["Name"] == "barnabas"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) == {"compiled", "local", "pipeline", "test"}


def test_the_console_script_loads(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [listed] = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        scripts = archive.read(listed).decode()
    [target] = re.findall(r"^barnabas = (.+)$", scripts, re.MULTILINE)
    assert callable(EntryPoint("barnabas", target, "console_scripts").load())


def barnabas(*arguments: str, site: Path, cwd: Path, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the command with the packages of `site`, as the console script does."""
    program = f"import sys; sys.path.insert(0, {str(site)!r}); from barnabas.admin.main import main; sys.exit(main())"
    command = [sys.executable, *python, "-c", program, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


def test_the_wheel_runs_from_another_directory(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    ran = barnabas("--version", site=tmp_path / "site", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "0.1.0" in ran.stdout


def test_a_broker_refuses_to_run_without_assertions(tmp_path: Path) -> None:
    configuration = tmp_path / "server.properties"
    configuration.write_text("broker.id=1\n")
    ran = barnabas("broker", "--config", str(configuration), site=ROOT, cwd=tmp_path, python=("-O",))
    assert ran.returncode != 0
    assert "-O" in ran.stderr
