# Splits property strings into pairs, and values into words.

cdef class PropertyPairs:
    """The pairs of the property strings between each `begin` and `end`, like `property_columns.Pairs`."""

    cdef const uint8_t[::1] _raw
    cdef Pair* _pairs
    cdef int32_t* _first
    cdef Py_ssize_t _rows, _count, _room
    cdef readonly bint plain
    """Whether all strings are ASCII. If not, they must be valid UTF-8."""
    cdef readonly bint complete
    """False if a long row may contain a name twice, or if offsets exceed 32 bits. This object is then unusable."""

    def __dealloc__(self):
        free(self._pairs)
        free(self._first)

    def __cinit__(
        self, const uint8_t[::1] raw not None, const int64_t[::1] begin not None, const int64_t[::1] end not None
    ):
        cdef Py_ssize_t i
        cdef uint64_t high = 0
        self.complete = checked(raw, begin, end) <= MOST and raw.shape[0] <= MOST
        self._raw = raw
        self._rows = begin.shape[0]
        self._first = <int32_t*>realloc(NULL, (self._rows + 1) * sizeof(int32_t))
        if self._first == NULL:
            raise MemoryError()
        self._first[0] = 0
        for i in range(self._rows):
            if self.complete and begin[i] < end[i]:
                high |= high_bits(&raw[0] + begin[i], end[i] - begin[i])
                self._split(&raw[0], &raw[0] + begin[i], &raw[0] + end[i])
            self._first[i + 1] = <int32_t>self._count
        self.plain = high & 0x8080808080808080U == 0

    cdef int _split(self, const uint8_t* raw, const uint8_t* p, const uint8_t* end) except -1:
        cdef const uint8_t* mark
        cdef const uint8_t* stop
        cdef Py_ssize_t first = self._count
        cdef uint64_t seen = 0, bit
        while p < end:
            stop = <const uint8_t*>memchr(p, 2, end - p)
            if stop == NULL:
                stop = end
            mark = <const uint8_t*>memchr(p, 1, stop - p)
            if mark != NULL and mark > p and mark + 1 < stop:
                bit = <uint64_t>1 << ((p[0] * 7 + (mark - 1)[0] * 13 + (mark - p)) & 63)
                if seen & bit:
                    self._drop(raw, first, p, mark - p)
                seen |= bit
                self._reserve()
                self._pairs[self._count].name = <int32_t>(p - raw)
                self._pairs[self._count].mark = <int32_t>(mark - raw)
                self._pairs[self._count].end = <int32_t>(stop - raw)
                self._count += 1
            p = stop + 1
        return 0

    cdef void _drop(self, const uint8_t* raw, Py_ssize_t first, const uint8_t* name, int64_t size) noexcept:
        """Remove the earlier pair with this name from the row, because the last of several pairs applies."""
        cdef Py_ssize_t i
        cdef Pair* pair
        if self._count - first > MANY_PAIRS:
            self.complete = False
            return
        for i in range(first, self._count):
            pair = self._pairs + i
            if pair.mark - pair.name == size and memcmp(raw + pair.name, name, size) == 0:
                self._count -= 1
                while i < self._count:
                    self._pairs[i] = self._pairs[i + 1]
                    i += 1
                return

    cdef int _reserve(self) except -1:
        cdef Pair* more
        if self._count == self._room:
            more = <Pair*>realloc(self._pairs, (2 * self._room + 1024) * sizeof(Pair))
            if more == NULL:
                raise MemoryError()
            self._pairs = more
            self._room = 2 * self._room + 1024
        return 0

    def maps(self, allocate):
        """Return the buffers of a map array: its offsets, then offsets and data of the names and of the values."""
        cdef const uint8_t* raw = &self._raw[0] if self._raw.shape[0] else NULL
        cdef const uint8_t* raw_end = raw + self._raw.shape[0]
        cdef int64_t in_names = 0, in_values = 0
        cdef Py_ssize_t i
        cdef object offsets, names, values, name_offsets, value_offsets
        cdef int32_t* name_offset
        cdef int32_t* value_offset
        cdef uint8_t* name
        cdef uint8_t* value
        cdef uint8_t* name_end
        cdef uint8_t* value_end
        cdef int32_t name_at = 0, value_at = 0
        cdef Pair pair
        for i in range(self._count):
            in_names += self._pairs[i].mark - self._pairs[i].name
            in_values += self._pairs[i].end - self._pairs[i].mark - 1
        offsets = allocate((self._rows + 1) * sizeof(int32_t))
        names = allocate(in_names)
        values = allocate(in_values)
        name_offsets = allocate((self._count + 1) * sizeof(int32_t))
        value_offsets = allocate((self._count + 1) * sizeof(int32_t))
        name_offset = <int32_t*>pointer(name_offsets)
        value_offset = <int32_t*>pointer(value_offsets)
        name = <uint8_t*>pointer(names)
        value = <uint8_t*>pointer(values)
        name_end = name + in_names
        value_end = value + in_values
        name_offset[0] = value_offset[0] = 0
        for i in range(self._count):
            pair = self._pairs[i]
            name = copied(name, name_end, raw + pair.name, raw_end, pair.mark - pair.name)
            value = copied(value, value_end, raw + pair.mark + 1, raw_end, pair.end - pair.mark - 1)
            name_at += pair.mark - pair.name
            value_at += pair.end - pair.mark - 1
            name_offset[i + 1] = name_at
            value_offset[i + 1] = value_at
        memcpy(pointer(offsets), self._first, (self._rows + 1) * sizeof(int32_t))
        return offsets, name_offsets, names, value_offsets, values

    def values(self, bytes name not None, allocate):
        """Return the value of this name in every row: number of rows without it, validity bits, offsets and data."""
        cdef const uint8_t* raw = &self._raw[0] if self._raw.shape[0] else NULL
        cdef const uint8_t* raw_end = raw + self._raw.shape[0]
        cdef Py_ssize_t hint = 0, nulls = 0, at, i
        cdef int64_t total = 0
        cdef object bits, offsets, data
        cdef uint8_t* bit
        cdef uint8_t* to
        cdef uint8_t* to_end
        cdef int32_t* offset
        cdef int32_t* found = <int32_t*>realloc(NULL, (self._rows + 1) * sizeof(int32_t))
        if found == NULL:
            raise MemoryError()
        try:
            for i in range(self._rows):
                at = self._find(raw, i, hint, <const uint8_t*>PyBytes_AS_STRING(name), len(name))
                found[i] = <int32_t>at
                if at < 0:
                    nulls += 1
                else:
                    hint = at - self._first[i]
                    total += self._pairs[at].end - self._pairs[at].mark - 1
            bits = allocate((self._rows + 7) // 8)
            offsets = allocate((self._rows + 1) * sizeof(int32_t))
            data = allocate(total)
            bit = <uint8_t*>pointer(bits)
            offset = <int32_t*>pointer(offsets)
            to = <uint8_t*>pointer(data)
            to_end = to + total
            memset(bit, 0, (self._rows + 7) // 8)
            offset[0] = 0
            for i in range(self._rows):
                offset[i + 1] = offset[i]
                at = found[i]
                if at >= 0:
                    bit[i >> 3] |= <uint8_t>(1 << (i & 7))
                    total = self._pairs[at].end - self._pairs[at].mark - 1
                    to = copied(to, to_end, raw + self._pairs[at].mark + 1, raw_end, total)
                    offset[i + 1] += <int32_t>total
        finally:
            free(found)
        return nulls, bits, offsets, data

    cdef inline Py_ssize_t _find(
        self, const uint8_t* raw, Py_ssize_t row, Py_ssize_t hint, const uint8_t* name, Py_ssize_t size
    ) noexcept:
        """Return the pair with this name in a row, or -1. Compares the pair at position `hint` of the row first."""
        cdef Py_ssize_t at = self._first[row] + hint
        if at < self._first[row + 1] and self._is(raw, at, name, size):
            return at
        for at in range(self._first[row], self._first[row + 1]):
            if self._is(raw, at, name, size):
                return at
        return -1

    cdef inline bint _is(self, const uint8_t* raw, Py_ssize_t at, const uint8_t* name, Py_ssize_t size) noexcept:
        cdef Pair* pair = self._pairs + at
        return pair.mark - pair.name == size and memcmp(raw + pair.name, name, size) == 0


cdef inline uint64_t high_bits(const uint8_t* p, int64_t size) noexcept nogil:
    """Return the bitwise OR of all bytes, eight at a time."""
    cdef uint64_t found = 0, eight
    while size >= 8:
        memcpy(&eight, p, 8)
        found |= eight
        p += 8
        size -= 8
    while size > 0:
        found |= p[0]
        p += 1
        size -= 1
    return found


def split(const int32_t[::1] offsets not None, const uint8_t[::1] text not None, allocate):
    """Split the texts between these offsets at spaces. Return the offsets of the lists (int32), then offsets and data
    of the words."""
    cdef Py_ssize_t count = offsets.shape[0] - 1, i
    cdef int64_t at, begin, words = 0, most = 0
    cdef object lists, word_offsets, data
    cdef int32_t* list_offset
    cdef int32_t* word_offset
    cdef uint8_t* to
    cdef uint8_t* first
    if count < 0:
        raise ValueError("there is no offset, and n texts have n + 1")
    for i in range(count):
        if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > text.shape[0]:
            raise ValueError(f"{text.shape[0]} bytes do not hold a text from {offsets[i]} to {offsets[i + 1]}")
        most += (offsets[i + 1] - offsets[i] + 1) // 2
    lists = allocate((count + 1) * sizeof(int32_t))
    word_offsets = allocate((most + 1) * sizeof(int32_t))
    data = allocate(text.shape[0])
    list_offset = <int32_t*>pointer(lists)
    word_offset = <int32_t*>pointer(word_offsets)
    to = first = <uint8_t*>pointer(data)
    list_offset[0] = word_offset[0] = 0
    for i in range(count):
        at = offsets[i]
        while at < offsets[i + 1]:
            begin = at
            while at < offsets[i + 1] and text[at] != 32:
                to[0] = text[at]
                to += 1
                at += 1
            if at > begin:
                words += 1
                word_offset[words] = <int32_t>(to - first)
            at += 1
        list_offset[i + 1] = <int32_t>words
    return lists, word_offsets.slice(0, (words + 1) * sizeof(int32_t)), data.slice(0, to - first)
