"""Measurements. Each script prints what it measured, with the limiter of each figure, and writes JSON and Markdown."""
