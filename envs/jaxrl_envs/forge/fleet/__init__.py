"""The fleet of Forge daemons: finds Forge and Java, starts, supervises and restarts daemons, leases them to games."""
