"""How a training starts: the commands train, resume and launch, and the run that they begin."""
