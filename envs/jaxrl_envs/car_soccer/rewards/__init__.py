"""What seats are paid for a decision: components with weights, composed by configuration."""
