"""Reward components with weights, composed by configuration."""
