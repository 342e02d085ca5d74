"""Training: plan, loop and parts of a training, its state, and the programs for compiled and host games."""
