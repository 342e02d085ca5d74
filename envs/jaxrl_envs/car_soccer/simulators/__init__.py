"""Other simulators of car soccer behind the same contract: RocketSim, and RLGym's names."""
