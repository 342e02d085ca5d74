"""The phases of a turn of the battle and the stratagems played in them (Cython)."""
