"""Imitation learning: behavioural cloning, DAgger and distillation."""
