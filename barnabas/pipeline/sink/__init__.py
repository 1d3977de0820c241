"""Topics as a Spark sink: rows are placed, encoded and sent by the workers, transactions are ended by the driver."""
