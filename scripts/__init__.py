"""Programs of a checkout; they are not installed."""
