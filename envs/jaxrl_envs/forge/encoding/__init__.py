"""Decisions of Forge as arrays: the daemon's JSON as questions with numbered actions and as observations."""
