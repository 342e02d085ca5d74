"""A run on disk: its folder, checkpoints, metrics, logs and status; and the processes that train it."""
