"""What the games have in common, and none of them owns."""
