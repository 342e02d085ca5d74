"""What learns: one folder for each algorithm, all behind the protocol of `base`."""
