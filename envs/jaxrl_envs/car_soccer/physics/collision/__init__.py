"""Where bodies touch, and the solver of their contacts."""
