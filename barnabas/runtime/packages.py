"""Where our packages stand, and how a child process is made to take them from there and from nowhere else."""

import os
from pathlib import Path


def own_root() -> Path:
    """The directory that our packages, as this process has them, stand in."""
    return Path(__file__).resolve().parents[2]


def environment_with(root: Path) -> dict[str, str]:
    """This process's environment, for an interpreter that looks for packages in `root` first (with `-P`: at all)."""
    search_path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": search_path}
