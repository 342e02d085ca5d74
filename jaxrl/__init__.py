"""jaxrl: reinforcement learning of games, end to end in one compiled program."""

__version__ = "0.1.0"
