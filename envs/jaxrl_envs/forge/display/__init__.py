"""Games of Magic for people: the table and what happens on it in words, and playback of recordings."""
