"""The contract: what a game is to a learner, games by name, and wrappers around one."""
