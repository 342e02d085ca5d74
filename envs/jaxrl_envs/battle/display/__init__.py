"""The battle for people: text, SVG, animation and playback."""
