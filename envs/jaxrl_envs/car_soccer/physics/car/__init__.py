"""Forces on a car: wheels, jumps and control in the air, bumps."""
