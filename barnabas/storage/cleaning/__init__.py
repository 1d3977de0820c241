"""Compaction: what to clean, which records stay, and the worker that writes the cleaned segments (KIP-58, KIP-98)."""
