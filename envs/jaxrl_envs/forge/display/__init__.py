"""Games of Magic for people: recorded, told, shown in a terminal, watched, and played back."""
