"""Hierarchical PPO: a manager that sets goals and a worker that pursues them."""
