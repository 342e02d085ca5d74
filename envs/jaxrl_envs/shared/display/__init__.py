"""Drawing, animation and playback of recorded games."""
