"""Values of a line of JSON, of which nothing is certain: what is not of the type that is wanted counts as missing."""

from cpython.long cimport PyLong_AsLongLongAndOverflow

from jaxrl_envs.forge cimport layout as at

cdef enum:
    LARGEST = 2147483647
    MISSING = -1
    NOT_SAID = -2  # an owner


cdef inline object get(value, str key):
    """The value of a key of an object, else None."""
    return (<dict>value).get(key) if type(value) is dict else None


cdef inline list items(value):
    """The elements of an array; of anything else none."""
    return <list>value if type(value) is list else []


cdef inline str text(value):
    """A string, else an empty one."""
    return <str>value if type(value) is str else ""


cdef inline int whole(value, int otherwise):
    """An integer, cut to 32 bits; anything else is `otherwise`, true and false too."""
    cdef int overflow = 0
    cdef long long number
    if type(value) is not int:
        return otherwise
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow > 0 or number > LARGEST:
        return LARGEST
    return -LARGEST if overflow < 0 or number < -LARGEST else <int>number


cdef inline float ratio(double a, double b):
    """a / b within the limit, divided in double precision."""
    cdef double q = a / b
    return <float>(at.LIMIT if q > at.LIMIT else -at.LIMIT if q < -at.LIMIT else q)
