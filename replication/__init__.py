"""The roles of a replica: leader state joined with a log."""
