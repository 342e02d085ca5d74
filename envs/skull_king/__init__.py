"""Skull King: rules, observation, bots and rendering, each in a file of its own."""
