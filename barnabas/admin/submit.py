"""The jobs for spark-submit, which wants a file: `spark-submit barnabas/admin/submit.py JOB CONFIG.toml [--set …]`.

Spark gives the session that it was told to make: `spark.master` of the configuration is left out then.
"""

import sys

from barnabas.admin.main import main

if __name__ == "__main__":
    sys.exit(main(["pipeline", *sys.argv[1:]]))
