"""Checkpoints of whole training states; `record` alone needs no jax."""
