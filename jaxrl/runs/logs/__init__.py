"""Messages of a training: its log files, and the lines on the terminal; `files` alone needs no jax."""
