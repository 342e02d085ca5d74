"""How strong a training gets, and how fast."""
