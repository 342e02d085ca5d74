"""Policy and value networks behind plain functions."""
