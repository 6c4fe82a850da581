# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""CRC-32 of bodies for Python code, without a copy of the body. The reference is `body_crc` in Python."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t

include "crc32.pxi"


def body_crc(object data, Py_ssize_t begin, Py_ssize_t end):
    """Return the CRC-32 of `data[begin:end]`, without the sign bit. Raises ValueError if the bytes do not exist."""
    cdef const uint8_t[::1] view
    cdef const uint8_t* p
    cdef Py_ssize_t size
    if type(data) is bytes:
        p = <const uint8_t*>PyBytes_AS_STRING(data)
        size = PyBytes_GET_SIZE(data)
    else:
        view = data
        size = view.shape[0]
        p = &view[0] if size > 0 else NULL
    if not 0 <= begin <= end <= size:
        raise ValueError(f"the bytes from {begin} to {end} of {size} do not exist")
    return crc32(p + begin, end - begin) & 0x7FFFFFFF
