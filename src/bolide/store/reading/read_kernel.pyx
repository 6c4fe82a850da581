# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Selects the records of a pull and copies their bytes, without a Python object per message.

`ReadKernel` does what `read.QueueReader` does for units that are only checked for their tags, and for their records. If
a unit is not valid, the pull starts again with `QueueReader`, which is the reference and is used if this module is not
built. Tests check that the results are equal.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

DEF UNIT = 20
DEF MOST_TAGS = 16
DEF KEPT_RUNS = 4096  # a larger array is released after a pull
DEF FAR = 1 << 62  # maximum offset, so that no sum overflows
DEF MIB = 1 << 20

cdef struct Run:
    int64_t at
    int64_t size


cdef inline int64_t i64_at(const uint8_t* p) noexcept nogil:
    return <int64_t>(
        <uint64_t>p[0] << 56 | <uint64_t>p[1] << 48 | <uint64_t>p[2] << 40 | <uint64_t>p[3] << 32
        | <uint64_t>p[4] << 24 | <uint64_t>p[5] << 16 | <uint64_t>p[6] << 8 | <uint64_t>p[7]
    )


cdef inline uint32_t u32_at(const uint8_t* p) noexcept nogil:
    return <uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | <uint32_t>p[3]


cdef void copy_runs(uint8_t* to, const uint8_t* data, int64_t begin, const Run* runs, Py_ssize_t count) noexcept nogil:
    """Copy runs contiguously to `to`. `data`: bytes of the log, starting at offset `begin`."""
    cdef Py_ssize_t i
    for i in range(count):
        memcpy(to, data + (runs[i].at - begin), runs[i].size)
        to += runs[i].size


cdef class ReadKernel:
    """Processes one pull at a time. Call `begin`, then `scan` until it has enough, then `found`. Then, for each
    `next_span`, call either `copied` or `runs`.

    A span contains runs of one file with at most `gap` bytes between them, and has at most `most` bytes. Runs with an
    average size of at least `large` bytes are copied separately, smaller ones into one object.
    """

    cdef int64_t _memory, _bytes_in_memory, _count_in_memory, _bytes_on_disk, _count_on_disk
    cdef int64_t _gap, _most, _large
    cdef int64_t _log_start, _log_end, _segment, _max_count, _max_bytes
    cdef int64_t _file_start, _file_end
    cdef int64_t _total, _taken, _last, _next
    cdef uint32_t _tags[MOST_TAGS]
    cdef int _tag_count
    cdef Run* _runs
    cdef Py_ssize_t _count, _room, _first, _after

    def __dealloc__(self):
        free(self._runs)

    def __init__(
        self, int64_t memory, int64_t bytes_in_memory, int64_t count_in_memory, int64_t bytes_on_disk,
        int64_t count_on_disk, int64_t gap, int64_t most, int64_t large
    ):
        self._memory = memory
        self._bytes_in_memory = bytes_in_memory
        self._count_in_memory = count_in_memory
        self._bytes_on_disk = bytes_on_disk
        self._count_on_disk = count_on_disk
        self._gap = gap
        self._most = most
        self._large = large

    def begin(
        self, int64_t log_start, int64_t log_end, int64_t segment, int64_t max_count, int64_t max_bytes, set tags
    ):
        """Start a pull of at most `max_count` messages and `max_bytes` bytes. Return False if the kernel does not
        support it: it has too many tags, or invalid offsets."""
        cdef int64_t code
        self._count = self._first = self._after = 0
        self._total = self._taken = self._last = 0
        self._file_start = self._file_end = 0
        if log_start < 0 or log_end > FAR or segment <= 0 or segment > FAR:
            return False
        self._log_start = log_start
        self._log_end = log_end
        self._segment = segment
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._tag_count = -1
        if tags is not None:
            if len(tags) > MOST_TAGS:
                return False
            self._tag_count = 0
            for tag in tags:
                if -0x80000000 <= tag <= 0x7FFFFFFF:  # units contain no other hashes
                    code = tag
                    self._tags[self._tag_count] = <uint32_t>code
                    self._tag_count += 1
        return True

    def scan(self, bytes units not None, int64_t at):
        """Scan units, starting at queue offset `at`. Return 1 if all were scanned, 0 if the batch is full, or -1 if a
        unit is invalid or its record is not in the log."""
        cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(units)
        cdef Py_ssize_t count = PyBytes_GET_SIZE(units) // UNIT, i
        cdef int64_t offset, size
        if not self._reserve(count):
            raise MemoryError()
        for i in range(count):
            offset = i64_at(p)
            size = <int32_t>u32_at(p + 8)
            if offset < 0 or offset > FAR or size <= 0:
                return -1
            if self._is_full(size, self._log_end - offset):
                return 0
            self._last = offset
            self._next = at + i + 1
            if self._tag_count < 0 or self._wanted(u32_at(p + 16)):
                if offset < self._log_start or offset < self._file_start or offset + size > self._file_end:
                    if not self._is_there(offset, size):
                        return -1
                self._add(offset, size)
                self._total += size
                self._taken += 1
            p += UNIT
        return 1

    def found(self):
        """Return the number of messages, their total size, the physical offset of the last scanned unit, and the queue
        offset after it."""
        return self._taken, self._total, self._last, self._next

    def next_span(self):
        """Return offset and size of the next range of the log to read with one call, or None at the end."""
        cdef Run* runs = self._runs
        cdef int64_t begin, end, file_end
        cdef Py_ssize_t after
        self._first = self._after
        if self._first >= self._count:
            if self._room > KEPT_RUNS:
                free(self._runs)
                self._runs = NULL
                self._room = 0
            return None
        begin = runs[self._first].at
        end = begin + runs[self._first].size
        file_end = begin - begin % self._segment + self._segment
        after = self._first + 1
        while after < self._count:
            if runs[after].at < end or runs[after].at - end > self._gap or runs[after].at >= file_end:
                break
            if runs[after].at + runs[after].size - begin > self._most:
                break
            end = runs[after].at + runs[after].size
            after += 1
        self._after = after
        return begin, end - begin

    def runs(self):
        """Return the offsets and the sizes of the runs of the current span."""
        cdef list starts = [], sizes = []
        cdef Py_ssize_t i
        for i in range(self._first, self._after):
            starts.append(self._runs[i].at)
            sizes.append(self._runs[i].size)
        return starts, sizes

    def copied(self, view):
        """Return copies of the runs of the current span. `view`: the bytes of the span."""
        cdef Py_buffer buffer
        PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
        try:
            return self._copied(<const uint8_t*>buffer.buf, buffer.len)
        finally:
            PyBuffer_Release(&buffer)

    cdef list _copied(self, const uint8_t* data, Py_ssize_t size):
        cdef const Run* runs = self._runs + self._first
        cdef Py_ssize_t count = self._after - self._first, i
        cdef int64_t begin, wanted = 0, within
        cdef bytes whole
        cdef uint8_t* to
        cdef list parts = []
        if count <= 0:
            return parts
        begin = runs[0].at
        for i in range(count):
            within = runs[i].at - begin
            if within < 0 or within > size or runs[i].size > size - within:
                raise ValueError(f"{size} bytes at offset {begin} of the log do not hold the records of this span")
            wanted += runs[i].size
        if count > 1 and wanted >= self._large * count:
            for i in range(count):
                parts.append(PyBytes_FromStringAndSize(<const char*>data + (runs[i].at - begin), runs[i].size))
            return parts
        whole = PyBytes_FromStringAndSize(NULL, wanted)
        to = <uint8_t*>PyBytes_AS_STRING(whole)
        if wanted < MIB:
            copy_runs(to, data, begin, runs, count)
        else:
            with nogil:
                copy_runs(to, data, begin, runs, count)
        parts.append(whole)
        return parts

    cdef bint _reserve(self, Py_ssize_t more) noexcept:
        """Allocate memory for `more` runs. Return False if there is not enough memory."""
        cdef Run* runs
        cdef Py_ssize_t room
        if self._count + more > self._room:
            room = 2 * (self._count + more)
            runs = <Run*>realloc(self._runs, room * sizeof(Run))
            if runs == NULL:
                return False
            self._runs = runs
            self._room = room
        return True

    cdef inline bint _wanted(self, uint32_t code) noexcept:
        cdef int i
        for i in range(self._tag_count):
            if self._tags[i] == code:
                return True
        return False

    cdef inline bint _is_full(self, int64_t size, int64_t distance) noexcept:
        """Like `QueueReader._is_full`."""
        cdef int64_t total = self._total + size
        if self._total == 0 or self._taken == 0:
            return False
        if self._taken + 1 > self._max_count or total > self._max_bytes:
            return True
        if distance <= self._memory:
            return total > self._bytes_in_memory or self._taken > self._count_in_memory - 1
        return total > self._bytes_on_disk or self._taken > self._count_on_disk - 1

    cdef bint _is_there(self, int64_t offset, int64_t size) noexcept:
        """Return whether the record is within the log. If so, set the range within which all records are."""
        cdef int64_t start = offset - offset % self._segment
        cdef int64_t end = start + self._segment
        if end > self._log_end:
            end = self._log_end
        if offset < self._log_start or offset + size > end:
            return False
        self._file_start = start
        self._file_end = end
        return True

    cdef inline void _add(self, int64_t offset, int64_t size) noexcept:
        cdef Run* last
        if self._count > 0:
            last = self._runs + self._count - 1
            if offset == last.at + last.size:
                last.size += size
                return
        self._runs[self._count].at = offset
        self._runs[self._count].size = size
        self._count += 1
