"""A game for tests that is driven by hand."""
