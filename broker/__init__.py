"""One broker process: connections, requests, and the parts that answer them."""

import os

# gRPC's core writes past the loggers, at INFO for each channel whose peer stopped. It looks at this when it is
# imported, so it has to be there before any module of a broker is.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
