"""The job `load`: topics into tables of a lake, each record once."""
