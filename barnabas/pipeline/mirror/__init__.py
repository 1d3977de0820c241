"""Mirroring: what stands in topics of several clusters goes into one, once, in order, and may be found again."""
