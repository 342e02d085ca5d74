"""The arena: its triangles, boost pads and spawn positions."""
