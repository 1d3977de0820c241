"""What went wrong in a query, out of the texts in which Spark wraps it: of the JVM and of two kinds of workers."""

import re
from typing import Final

_OURS: Final = re.compile(r"^barnabas(?:\.\w+)+\.\w+: (.+)$", re.MULTILINE)
_PLAN: Final = "\n=== Streaming Query ==="
"""What of a streaming query stands behind its error: offsets and plans, for nobody who looks for what is wrong."""
_SPARK_CHARS: Final = 2000


def explain(error: BaseException) -> str:
    """What an error of ours says where there is one in Spark's text, or else what Spark says, shortened."""
    text = str(error)
    ours = _OURS.findall(text)
    return str(ours[-1]) if ours else f"Spark ended the query: {text.partition(_PLAN)[0][:_SPARK_CHARS]}"
