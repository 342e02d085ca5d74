"""Actor threads that play games on the host, and a learner on the device."""
