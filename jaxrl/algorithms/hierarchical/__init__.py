"""A manager that sets goals and a worker that plays for them, both by PPO."""
