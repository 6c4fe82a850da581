# A growing buffer, and functions that write integers, digits and bytes to it.

cdef struct Buffer:
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t room

cdef const char* HEX = b"0123456789ABCDEF"


cdef int reserve(Buffer* b, Py_ssize_t more) except -1:
    """Reserve room for `more` bytes at the end of a buffer."""
    cdef Py_ssize_t room
    cdef uint8_t* data
    if b.size + more > b.room:
        room = 2 * (b.size + more) + 4096
        data = <uint8_t*>realloc(b.data, room)
        if data == NULL:
            raise MemoryError()
        b.data = data
        b.room = room
    return 0


cdef inline void put(Buffer* b, const void* data, Py_ssize_t size) noexcept nogil:
    memcpy(b.data + b.size, data, size)
    b.size += size


cdef inline void put_bytes(Buffer* b, bytes data) noexcept:
    put(b, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef inline void put_int(Buffer* b, uint64_t value, int size) noexcept nogil:
    """Write a big-endian integer of `size` bytes."""
    cdef uint8_t* to = b.data + b.size
    cdef int i = size
    while i > 0:
        i -= 1
        to[i] = <uint8_t>value
        value >>= 8
    b.size += size


cdef inline int decimal(uint8_t* to, int64_t value) noexcept nogil:
    """Write the digits of a number. Return their count, at most 20."""
    cdef uint8_t digits[20]
    cdef int count = 0, at = 0
    cdef uint64_t left
    if value < 0:
        to[0] = 45
        at = 1
        left = <uint64_t>(-value)
    else:
        left = <uint64_t>value
    while True:
        digits[count] = <uint8_t>(48 + left % 10)
        count += 1
        left //= 10
        if left == 0:
            break
    while count > 0:
        count -= 1
        to[at] = digits[count]
        at += 1
    return at


cdef inline void put_decimal(Buffer* b, int64_t value) noexcept nogil:
    b.size += decimal(b.data + b.size, value)


cdef inline void put_sized_decimal(Buffer* b, int64_t value) noexcept nogil:
    """Write a number as the value of a field of a binary header: its length, then its digits."""
    cdef uint8_t digits[20]
    cdef int size = decimal(digits, value)
    put_int(b, size, 4)
    put(b, digits, size)


cdef inline void put_hex(Buffer* b, uint64_t value) noexcept nogil:
    """Write a number as sixteen hex digits."""
    cdef int i = 16
    while i > 0:
        i -= 1
        b.data[b.size + i] = <uint8_t>HEX[value & 15]
        value >>= 4
    b.size += 16
