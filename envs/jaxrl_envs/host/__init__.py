"""Games that live on the host: the batched contract, its thread pool, and the bridge to compiled programs."""
