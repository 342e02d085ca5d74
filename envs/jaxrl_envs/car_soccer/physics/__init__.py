"""The physics of an arena, 120 ticks a second, as pure functions (specification: docs/games/car_soccer_physics.md)."""
