"""What a GPU makes of the programs of a configuration, as its compiler says without one (`jaxrl diagnose --gpu`)."""
