"""The daemons of Forge: found, started, watched, restarted, and lent to games."""
