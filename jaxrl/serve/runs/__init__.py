"""Training runs in the browser."""
