"""Skull King: rules, observation, bots and pictures."""
