"""Training: the trainer, its state and the two loops."""
