"""A broker process like any other, but on a `FaultyDisk` whose directory the environment names."""

import os
import sys

import broker.main
from tests.support.faulty_disk import ENVIRONMENT, FaultyDisk

ENTRY = "tests.support.faulty_broker"


def main() -> int:
    """Run it with the arguments of `broker.main`."""
    vars(broker.main)["SystemDisk"] = lambda: FaultyDisk(os.environ[ENVIRONMENT])
    return broker.main.main()


if __name__ == "__main__":
    sys.exit(main())
