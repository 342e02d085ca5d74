"""Slow, obvious, plain-Python referees: the second opinion that the compiled engines are tested against."""
