# The CRC of a body, as zlib computes it.

cdef uint32_t CRC[8][256]


cdef void make_crc() noexcept:
    cdef uint32_t c
    cdef int i, k
    for i in range(256):
        c = <uint32_t>i
        for k in range(8):
            c = (c >> 1) ^ 0xEDB88320U if c & 1 else c >> 1
        CRC[0][i] = c
    for i in range(256):
        for k in range(1, 8):
            CRC[k][i] = (CRC[k - 1][i] >> 8) ^ CRC[0][CRC[k - 1][i] & 0xFF]


make_crc()


cdef uint32_t crc32(const uint8_t* p, Py_ssize_t size) noexcept nogil:
    """Compute zlib's CRC-32, eight bytes at a time."""
    cdef uint32_t c = 0xFFFFFFFFU
    cdef uint32_t d
    while size >= 8:
        c ^= <uint32_t>p[0] | <uint32_t>p[1] << 8 | <uint32_t>p[2] << 16 | <uint32_t>p[3] << 24
        d = <uint32_t>p[4] | <uint32_t>p[5] << 8 | <uint32_t>p[6] << 16 | <uint32_t>p[7] << 24
        c = (
            CRC[7][c & 0xFF] ^ CRC[6][(c >> 8) & 0xFF] ^ CRC[5][(c >> 16) & 0xFF] ^ CRC[4][c >> 24]
            ^ CRC[3][d & 0xFF] ^ CRC[2][(d >> 8) & 0xFF] ^ CRC[1][(d >> 16) & 0xFF] ^ CRC[0][d >> 24]
        )
        p += 8
        size -= 8
    while size > 0:
        c = (c >> 8) ^ CRC[0][(c ^ p[0]) & 0xFF]
        p += 1
        size -= 1
    return c ^ 0xFFFFFFFFU
