"""Games for learners written in JAX: the contract, the games, and adapters to and from other libraries."""
