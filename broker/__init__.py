"""One broker process: connections, requests, and the parts that answer them."""
