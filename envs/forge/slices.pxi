# Part of replay_server.pyx: a recording, cut into what is sent at a time.

cdef struct View:  # of a Slices
    const char* data
    const char* answers
    const Py_ssize_t* cuts
    const Py_ssize_t* answer_cuts
    const signed char* seats
    int count


cdef class Slices:
    """A recording, cut where an answer is awaited.

    Slice i is what the daemon says after the i-th answer (slice 0: at once, without GAME_START and SEED), up to the next
    decision; the last one ends with the result.
    """

    cdef readonly bytes data, answers
    cdef readonly int count
    cdef Py_ssize_t* cuts
    cdef Py_ssize_t* answer_cuts
    cdef signed char* seats

    def __init__(self, slices, answers, seats):
        """Of `slices` (bytes), the answers between them (one less), and the seat that each asks (31: none)."""
        cdef Py_ssize_t i
        self.count = len(slices)
        if not self.count or len(answers) != self.count - 1 or len(seats) != self.count:
            raise ValueError(f"{self.count} slices, {len(answers)} answers, {len(seats)} seats")
        self.data, self.answers = b"".join(slices), b"".join(answers)
        self.cuts = <Py_ssize_t*>calloc(self.count + 1, sizeof(Py_ssize_t))
        self.answer_cuts = <Py_ssize_t*>calloc(self.count + 1, sizeof(Py_ssize_t))
        self.seats = <signed char*>calloc(self.count, 1)
        if self.cuts == NULL or self.answer_cuts == NULL or self.seats == NULL:
            raise MemoryError
        for i in range(self.count):
            self.cuts[i + 1] = self.cuts[i] + len(slices[i])
            self.seats[i] = seats[i]
            if i + 1 < self.count:
                self.answer_cuts[i + 1] = self.answer_cuts[i] + len(answers[i])

    def __dealloc__(self):
        free(self.cuts)
        free(self.answer_cuts)
        free(self.seats)

    def slice(self, Py_ssize_t i):
        """The bytes of slice i."""
        if not 0 <= i < self.count:
            raise IndexError(i)
        return self.data[self.cuts[i] : self.cuts[i + 1]]

    def answer(self, Py_ssize_t i):
        """The recorded answer to slice i."""
        if not 0 <= i < self.count - 1:
            raise IndexError(i)
        return self.answers[self.answer_cuts[i] : self.answer_cuts[i + 1]]


cdef View view_of(Slices slices):
    cdef View view
    view.data, view.answers = PyBytes_AS_STRING(slices.data), PyBytes_AS_STRING(slices.answers)
    view.cuts, view.answer_cuts, view.seats, view.count = slices.cuts, slices.answer_cuts, slices.seats, slices.count
    return view
