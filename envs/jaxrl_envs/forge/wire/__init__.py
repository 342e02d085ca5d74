"""Connections between games and daemons: lines over TCP, and leases of a connection."""
