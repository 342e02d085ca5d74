"""Several configurations at equal CPU time."""
