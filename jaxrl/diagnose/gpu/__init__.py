"""The programs of a configuration as the compiler of a GPU sees them, without one (`jaxrl diagnose --gpu`)."""
