"""Car soccer for people: text, SVG, playback and driving by hand."""
