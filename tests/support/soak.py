"""How long a soak lasts (`make soak`)."""

import os


def minutes() -> float:
    """How long the tests that can go on should; 0 in an ordinary run."""
    return float(os.environ.get("BARNABAS_SOAK_MINUTES", "0"))
