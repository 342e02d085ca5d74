"""What goes between a game and its daemon: connections that carry lines, and who may use one."""
