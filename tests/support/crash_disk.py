"""The simulator's disk, under the name that tests of storage know it by."""

from barnabas.simulation.disk import Crashed
from barnabas.simulation.disk import SimulatedDisk as CrashDisk

__all__ = ["CrashDisk", "Crashed"]
