# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Calls preadv2 and mincore without the overhead of Python.

`read_nowait` and `is_resident` do in one call what `files` and `file_maps` do in several calls from Python. Those two
modules are the reference and are used if this module is not built. Tests check that the results are equal.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals, PyErr_SetFromErrno
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #include <sys/types.h>
    #include <unistd.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #include <sys/uio.h>
    #define bolide_mincore(at, size, pages) mincore((void *)(at), (size), (pages))
    #define BOLIDE_TELLS_PAGES 1
    #else
    #define bolide_mincore(at, size, pages) (-1)
    #define BOLIDE_TELLS_PAGES 0
    #endif
    #if defined(__linux__) && defined(HAVE_PREADV2) && defined(RWF_NOWAIT)
    #define BOLIDE_READS_NOWAIT 1
    static ssize_t bolide_preadv2(int fd, void *to, size_t size, int64_t offset, int flags) {
        struct iovec one = {to, size};
        return preadv2(fd, &one, 1, (off_t)offset, flags);
    }
    #else
    #define BOLIDE_READS_NOWAIT 0
    #define bolide_preadv2(fd, to, size, offset, flags) (-1)
    #endif
    """
    int bolide_mincore(uint64_t at, size_t size, unsigned char* pages) nogil
    ssize_t bolide_preadv2(int fd, void* to, size_t size, int64_t offset, int flags) nogil
    int64_t lseek(int fd, int64_t offset, int whence) nogil
    const bint BOLIDE_TELLS_PAGES
    const bint BOLIDE_READS_NOWAIT
    const int SEEK_END

DEF PAGES = 1024  # maximum number of pages checked by one call

TELLS_PAGES = bool(BOLIDE_TELLS_PAGES)
READS_NOWAIT = bool(BOLIDE_READS_NOWAIT)


def read_nowait(int handle, Py_ssize_t size, int64_t offset, int flags):
    """Return bytes of a file, fewer at its end, or None if they are not in memory (as requested by the flags)."""
    cdef bytes data
    cdef char* to
    cdef Py_ssize_t have = 0, done
    if size < 0:
        raise ValueError(f"{size} bytes cannot be read")
    data = PyBytes_FromStringAndSize(NULL, size)
    to = PyBytes_AS_STRING(data)
    while have < size:
        with nogil:
            done = bolide_preadv2(handle, to + have, size - have, offset + have, flags)
        if done == 0:
            return data[:have]
        if done > 0:
            have += done
        elif errno == EAGAIN:
            return None
        elif errno == EINTR:
            PyErr_CheckSignals()
        else:
            PyErr_SetFromErrno(OSError)
    return data


def is_resident(int handle, uint64_t address, int64_t offset, int64_t size, int64_t page):
    """Return whether a range is within the current length of a file and all its pages are in memory. `address`: where
    the file is mapped. Raises `OSError`."""
    cdef unsigned char pages[PAGES]
    cdef int64_t at, end = offset + size, part, i, length = lseek(handle, 0, SEEK_END)
    if length < 0:
        PyErr_SetFromErrno(OSError)
    if end > length:
        return False
    at = offset - offset % page
    while at < end:
        part = end - at
        if part > PAGES * page:
            part = PAGES * page
        if bolide_mincore(address + at, part, pages) != 0:
            return False
        for i in range((part + page - 1) // page):
            if pages[i] != 1:
                return False
        at += part
    return True
