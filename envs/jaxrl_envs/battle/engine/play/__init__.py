"""The play of a battle: decisions, dice, attacks, stratagems and the course of its stages (Cython)."""
