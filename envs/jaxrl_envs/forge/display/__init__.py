"""Games of Magic for people: the table and actions as text, transcripts, and playback of recordings."""
