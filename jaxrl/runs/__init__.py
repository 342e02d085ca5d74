"""What a run keeps on disk: its directory, checkpoints, figures and logs."""
