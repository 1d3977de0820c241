"""The wire format: messages, record batches, compression. Imports nothing of ours."""
