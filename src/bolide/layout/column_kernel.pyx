# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Computes columns of many records without an object per record: positions of records and properties, Arrow buffers.

Each function has a counterpart in `columns`, `property_columns` or `record_parts` that uses numpy and Arrow. The
counterparts are the reference, and are used if this module is not built. Tests check that both are equal. Positions are
bytes of `raw`, and a position outside `raw` raises ValueError. A function returns None for input that is too large or
too rare, and leaves it to the reference. `allocate` creates the returned buffers. It is `pyarrow.allocate_buffer`,
which reuses memory without zeroing it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy, memset

include "crc32.pxi"

DEF MIN_RECORD = 91
DEF HEAD = 88
DEF PROOF = 36
cdef uint32_t MAGIC_V1 = 0xDAA320A7U
cdef uint32_t MAGIC_V2 = 0xDAA320ABU
DEF MOST = 0x7FFFFFFF  # maximum number of bytes for offsets of 32 bits
DEF MANY_PAIRS = 64
DEF SHORT = 32

cdef const char* HEX = b"0123456789ABCDEF"

cdef struct Pair:
    int32_t name
    int32_t mark  # the byte between name and value
    int32_t end


cdef inline uint32_t u32_at(const uint8_t* p) noexcept nogil:
    return <uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | <uint32_t>p[3]


cdef inline int64_t i64_at(const uint8_t* p) noexcept nogil:
    return <int64_t>(<uint64_t>u32_at(p) << 32 | u32_at(p + 4))


cdef inline int64_t i16_at(const uint8_t* p) noexcept nogil:
    return <int16_t>(<uint16_t>p[0] << 8 | p[1])


cdef uint8_t* pointer(object buffer) except? NULL:
    """Return the address of a buffer's bytes. The caller must keep the buffer alive."""
    cdef signed char[::1] view = buffer  # as Arrow names its bytes
    return <uint8_t*>&view[0] if view.shape[0] else NULL


cdef inline uint8_t* copied(uint8_t* to, const uint8_t* to_end, const uint8_t* p, const uint8_t* end, int64_t size) noexcept nogil:
    """Copy `size` bytes, and return the end of the copy.

    A short piece is copied together with the bytes after it if both sides have room.
    """
    if size <= SHORT and end - p >= SHORT and to_end - to >= SHORT:
        memcpy(to, p, SHORT)
    else:
        memcpy(to, p, size)
    return to + size


cdef int64_t record_end(const uint8_t* raw, int64_t at, int64_t size) noexcept nogil:
    """Return the end of the record at `at`, or -1 if there is no record or its lengths do not add up."""
    cdef const uint8_t* p = raw + at
    cdef int64_t total, place, length
    cdef uint32_t magic, flag
    if size - at < MIN_RECORD:
        return -1
    total = <int32_t>u32_at(p)
    magic = u32_at(p + 4)
    if total < MIN_RECORD or total > size - at or (magic != MAGIC_V1 and magic != MAGIC_V2):
        return -1
    flag = u32_at(p + 36)
    place = at + HEAD + 12 * ((flag >> 4 & 1) + (flag >> 5 & 1))
    if place > size:
        return -1
    length = <int32_t>u32_at(raw + place - 4)
    if length > 0:
        place += length
    if place + 2 > size:
        return -1
    if magic == MAGIC_V2:
        length = i16_at(raw + place)
        place += 2
    else:
        length = raw[place]
        place += 1
        if length > 127:
            return -1
    if length < 0:
        return -1
    place += length + 2
    if place > size:
        return -1
    length = i16_at(raw + place - 2)
    if length > 0:
        place += length
    return place if place == at + total else -1


cdef class Places:
    """A growing list of positions, as bytes of int64."""

    cdef int64_t* _at
    cdef Py_ssize_t _count, _room

    def __dealloc__(self):
        free(self._at)

    cdef int add(self, int64_t at) except -1:
        cdef int64_t* more
        if self._count == self._room:
            more = <int64_t*>realloc(self._at, (2 * self._room + 1024) * sizeof(int64_t))
            if more == NULL:
                raise MemoryError()
            self._at = more
            self._room = 2 * self._room + 1024
        self._at[self._count] = at
        self._count += 1
        return 0

    cdef bytes taken(self):
        return PyBytes_FromStringAndSize(<const char*>self._at, self._count * sizeof(int64_t))


def chained(const uint8_t[::1] raw not None):
    """Return the starts (int64) of consecutive records from byte 0, up to the first invalid record."""
    cdef Places found = Places()
    cdef int64_t at = 0, end, size = raw.shape[0]
    while at < size:
        end = record_end(&raw[0], at, size)
        if end < 0:
            break
        found.add(at)
        at = end
    return found.taken()


def proven(const uint8_t[::1] raw not None, int64_t base):
    """Return the starts (int64) of records whose physical offset matches their position. `base` is the physical offset
    of byte 0. The second result is the start of the next record if the end of the buffer truncates it, else -1."""
    cdef Places found = Places()
    cdef int64_t at = 0, end, total, cut = -1, size = raw.shape[0]
    cdef const uint8_t* p
    cdef const uint8_t* next
    while size >= MIN_RECORD and size - at >= PROOF:
        p = &raw[at]
        if p[4] != 0xDA or (u32_at(p + 4) != MAGIC_V1 and u32_at(p + 4) != MAGIC_V2) or i64_at(p + 28) != at + base:
            next = <const uint8_t*>memchr(p + 5, 0xDA, size - at - 5)
            if next == NULL:
                break
            at = next - &raw[0] - 4
            continue
        total = <int32_t>u32_at(p)
        end = record_end(&raw[0], at, size)
        if end >= 0:
            found.add(at)
            at = end
            cut = -1
            continue
        if cut < 0 and total >= MIN_RECORD and total > size - at:
            cut = at
        at += 1
    return found.taken(), cut


def gathered(
    const uint8_t[::1] raw not None, const int64_t[::1] begin not None, const int64_t[::1] end not None, allocate
):
    """Return the bytes between each `begin` and `end` as offsets (int32) and data of an Arrow array."""
    cdef Py_ssize_t count = begin.shape[0], i
    cdef int64_t total = checked(raw, begin, end)
    cdef object offsets, data
    cdef int32_t* offset
    cdef uint8_t* to
    cdef uint8_t* first
    if total > MOST:
        return None
    offsets = allocate((count + 1) * sizeof(int32_t))
    data = allocate(total)
    offset = <int32_t*>pointer(offsets)
    to = first = <uint8_t*>pointer(data)
    offset[0] = 0
    for i in range(count):
        if end[i] > begin[i]:
            to = copied(to, first + total, &raw[0] + begin[i], &raw[0] + raw.shape[0], end[i] - begin[i])
        offset[i + 1] = <int32_t>(to - first)
    return offsets, data


cdef int64_t checked(const uint8_t[::1] raw, const int64_t[::1] begin, const int64_t[::1] end) except -1:
    """Return the total number of bytes between each `begin` and `end`. Raises ValueError if one is outside `raw`."""
    cdef int64_t total = 0
    cdef Py_ssize_t i
    if begin.shape[0] != end.shape[0]:
        raise ValueError(f"{begin.shape[0]} places begin and {end.shape[0]} end")
    for i in range(begin.shape[0]):
        if begin[i] < 0 or end[i] < begin[i] or end[i] > raw.shape[0]:
            raise ValueError(f"{raw.shape[0]} bytes do not hold what lies between {begin[i]} and {end[i]}")
        total += end[i] - begin[i]
    return total


def matching(
    const uint8_t[::1] raw not None, const int64_t[::1] begin not None, const int64_t[::1] end not None,
    const int32_t[::1] wanted not None
):
    """Return one byte per body: whether it matches its CRC in `wanted` (31 bits). An empty body always does."""
    cdef Py_ssize_t count = begin.shape[0], i
    cdef bytes found
    cdef char* to
    checked(raw, begin, end)
    if wanted.shape[0] != count:
        raise ValueError(f"{count} bodies have {wanted.shape[0]} CRCs")
    found = PyBytes_FromStringAndSize(NULL, count)
    to = PyBytes_AS_STRING(found)
    with nogil:
        for i in range(count):
            to[i] = (
                begin[i] == end[i]
                or <int32_t>(crc32(&raw[0] + begin[i], end[i] - begin[i]) & 0x7FFFFFFF) == wanted[i]
            )
    return found


cdef inline uint8_t* decimal(uint8_t* to, uint32_t number) noexcept nogil:
    cdef uint8_t digits[10]
    cdef int count = 0
    while True:
        digits[count] = <uint8_t>(48 + number % 10)
        number //= 10
        count += 1
        if number == 0:
            break
    while count > 0:
        count -= 1
        to[0] = digits[count]
        to += 1
    return to


cdef inline uint8_t* host_v4(uint8_t* to, const uint8_t* host) noexcept nogil:
    """Write ``ip:port`` of the eight bytes of an IPv4 host, at most 27 characters. Return its end."""
    cdef int32_t port = <int32_t>u32_at(host + 4)
    cdef int i
    for i in range(4):
        to = decimal(to, host[i])
        to[0] = 46 if i < 3 else 58
        to += 1
    if port < 0:
        to[0] = 45
        return decimal(to + 1, <uint32_t>0 - <uint32_t>port)
    return decimal(to, <uint32_t>port)


def hosts(
    const uint8_t[::1] raw not None, const int64_t[::1] begin not None, const int64_t[::1] end not None, allocate
):
    """Return ``ip:port`` of stored hosts as offsets (int32) and text, or None if a host is not IPv4."""
    cdef Py_ssize_t count = begin.shape[0], i
    cdef uint8_t text[32]
    cdef int64_t size = 0
    cdef const uint8_t* last = NULL
    cdef const uint8_t* host
    cdef uint8_t* to
    cdef uint8_t* first
    cdef int32_t* offset
    cdef object offsets, data
    checked(raw, begin, end)
    if count * 32 > MOST:
        return None
    offsets = allocate((count + 1) * sizeof(int32_t))
    data = allocate(32 * count)
    offset = <int32_t*>pointer(offsets)
    to = first = <uint8_t*>pointer(data)
    offset[0] = 0
    for i in range(count):
        if end[i] - begin[i] != 8:
            return None
        host = &raw[0] + begin[i]
        if last == NULL or memcmp(host, last, 8) != 0:
            size = host_v4(text, host) - text
            last = host
        memcpy(to, text, 32)
        to += size
        offset[i + 1] = <int32_t>(to - first)
    return offsets, data.slice(0, to - first)


cdef inline uint8_t* hex_of(uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil:
    cdef int64_t i
    for i in range(size):
        to[2 * i] = HEX[p[i] >> 4]
        to[2 * i + 1] = HEX[p[i] & 15]
    return to + 2 * size


def offset_ids(
    const uint8_t[::1] raw not None, const int64_t[::1] begin not None, const int64_t[::1] end not None,
    const int64_t[::1] records not None, allocate
):
    """Return the broker's ids of the records that start at `records`, as offsets (int32) and text.

    Their store hosts are between `begin` and `end`. Return None if the text is too long.
    """
    cdef Py_ssize_t count = begin.shape[0], i
    cdef int64_t total = 2 * checked(raw, begin, end) + 16 * count
    cdef const uint8_t* last = NULL
    cdef const uint8_t* host
    cdef uint8_t* to
    cdef uint8_t* first
    cdef int32_t* offset
    cdef object offsets, data
    if records.shape[0] != count:
        raise ValueError(f"{count} hosts are of {records.shape[0]} records")
    if total > MOST:
        return None
    offsets = allocate((count + 1) * sizeof(int32_t))
    data = allocate(total)
    offset = <int32_t*>pointer(offsets)
    to = first = <uint8_t*>pointer(data)
    offset[0] = 0
    for i in range(count):
        if records[i] < 0 or records[i] > raw.shape[0] - PROOF:
            raise ValueError(f"{raw.shape[0]} bytes do not hold the record at {records[i]}")
        to = hex_of(to, &raw[0] + begin[i], end[i] - begin[i])
        to = hex_of(to, &raw[0] + records[i] + 28, 8)
        offset[i + 1] = <int32_t>(to - first)
    return offsets, data


include "property_pairs.pxi"
