"""What is taken of the machine, in a process of its own: limits are a process's."""

import subprocess
import sys

LOWERED = """
import resource
from barnabas.runtime.machine import raise_descriptor_limit

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
raise_descriptor_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
raise_descriptor_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
"""


def test_as_many_descriptors_are_taken_as_the_system_gives():
    subprocess.run([sys.executable, "-c", LOWERED], check=True)
