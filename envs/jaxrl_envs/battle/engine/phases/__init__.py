"""The phases of a turn of the battle (Cython)."""
