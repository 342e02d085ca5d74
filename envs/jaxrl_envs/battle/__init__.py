"""A two-player tabletop battle between small forces of squads."""
