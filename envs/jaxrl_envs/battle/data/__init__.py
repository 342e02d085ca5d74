"""Rosters and maps that come with the battle."""
