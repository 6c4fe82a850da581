# The CRC of a body, as zlib computes it. On x86-64, the instruction PCLMULQDQ computes most of it, if the processor has it;
# the instruction CRC32 of SSE 4.2 computes another polynomial.

cdef extern from *:
    """
    #if defined(__GNUC__) && defined(__x86_64__)
    #include <smmintrin.h>
    #include <wmmintrin.h>

    static int crc_folds(void) {
        return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    }

    #define FOLD(x, by, y) \
        _mm_xor_si128( \
            _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)), y)
    #define LOAD(p) _mm_loadu_si128((const __m128i *)(p))

    /* Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction (Intel, 2009).
       The constants are powers of x modulo the polynomial, in reflected order. `size` is a multiple of 16, 64 or more. */
    __attribute__((target("pclmul,sse4.1")))
    static uint32_t crc_folded(uint32_t crc, const uint8_t *p, size_t size) {
        const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
        const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
        const __m128i by_64 = _mm_set_epi64x(0, 0x163cd6124);
        const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
        const __m128i low = _mm_setr_epi32(-1, 0, -1, 0);
        __m128i a = _mm_xor_si128(LOAD(p), _mm_cvtsi32_si128((int)crc));
        __m128i b = LOAD(p + 16), c = LOAD(p + 32), d = LOAD(p + 48), t;
        for (p += 64, size -= 64; size >= 64; p += 64, size -= 64) {
            a = FOLD(a, by_512, LOAD(p));
            b = FOLD(b, by_512, LOAD(p + 16));
            c = FOLD(c, by_512, LOAD(p + 32));
            d = FOLD(d, by_512, LOAD(p + 48));
        }
        a = FOLD(a, by_128, b);
        a = FOLD(a, by_128, c);
        a = FOLD(a, by_128, d);
        for (; size >= 16; p += 16, size -= 16)
            a = FOLD(a, by_128, LOAD(p));
        a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_128, 0x10));
        t = _mm_srli_si128(a, 4);
        a = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low), by_64, 0x00), t);
        t = _mm_clmulepi64_si128(_mm_and_si128(a, low), barrett, 0x10);
        t = _mm_clmulepi64_si128(_mm_and_si128(t, low), barrett, 0x00);
        return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, t), 1);
    }
    #else
    static int crc_folds(void) { return 0; }
    static uint32_t crc_folded(uint32_t crc, const uint8_t *p, size_t size) { return crc; }
    #endif
    """
    int crc_folds() nogil
    uint32_t crc_folded(uint32_t crc, const uint8_t* p, size_t size) nogil

DEF FOLDED = 64  # fewest bytes that are folded

cdef bint FOLDS = crc_folds()
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
    """Compute zlib's CRC-32: sixteen bytes at a time by folding, the rest eight at a time by tables."""
    cdef uint32_t c = 0xFFFFFFFFU
    cdef uint32_t d
    cdef Py_ssize_t folded
    if FOLDS and size >= FOLDED:
        folded = size - size % 16
        c = crc_folded(c, p, folded)
        p += folded
        size -= folded
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
