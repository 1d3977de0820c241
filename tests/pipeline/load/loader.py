"""The command `barnabas pipeline load`, with what it logs on standard error: a process to be killed."""

import logging
import sys

from barnabas.admin.main import main

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    for name in ("py4j", "pyspark"):
        logging.getLogger(name).setLevel(logging.WARNING)
    sys.argv = ["barnabas", "pipeline", "load", *sys.argv[1:]]
    sys.exit(main())
