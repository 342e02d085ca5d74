"""What the engine threads run. `run(core, number)` is for Python: the body of a thread."""

cdef inline int bot_of(int action) noexcept nogil:
    """The scripted player that a negative action asks for: -1 for number 0, which is "random", -2 - b for b."""
    return 0 if action == -1 else -2 - action
