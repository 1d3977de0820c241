"""What gRPC's core writes into a broker's log past its loggers."""

import subprocess
import sys

import pytest

SCRIPT = "import sys, os, broker; print(os.environ['GRPC_VERBOSITY'], 'grpc' in sys.modules)"


@pytest.mark.parametrize(("given", "expected"), [({}, "ERROR False"), ({"GRPC_VERBOSITY": "DEBUG"}, "DEBUG False")])
def test_grpc_is_told_to_write_errors_only_before_it_is_imported(given: dict[str, str], expected: str) -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], env=given, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == expected
