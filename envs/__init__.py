"""Games: each asks its seats for one legal action at a time. See `envs.core` for the contract."""
