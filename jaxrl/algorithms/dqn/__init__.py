"""Deep Q-learning with prioritised replay."""
