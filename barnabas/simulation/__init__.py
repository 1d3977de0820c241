"""The simulated world, its invariants and the checker of client histories: a part of the product."""
