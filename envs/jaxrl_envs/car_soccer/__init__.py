"""Car soccer: cars and a ball in an arena, physics measured against the reference simulator of its community."""

BOTS = ("random", "still", "chase", "keeper", "rule_policy", "rotation", "striker")
