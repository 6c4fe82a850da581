# The records of one run of sends, with a row and texts for each record.

cdef object text_of(Text text):
    return PyUnicode_DecodeASCII(<const char*>text.at, text.size, NULL)


@cython.final
@cython.internal
cdef class SendRecords:
    """The records of one run. `host`: store host; `most`: maximum size of a record in bytes."""

    cdef Buffer out, rows
    cdef int64_t start  # offset of the first record in the log
    cdef bytes _host, _born_host
    cdef object _tags
    cdef int64_t _room, _stamp, _most
    cdef uint8_t _last_tags[256]
    cdef Py_ssize_t _last_tags_size

    def __init__(self, bytes host, int64_t most):
        self._host = host
        self._most = most

    def __dealloc__(self):
        free(self.out.data)
        free(self.rows.data)

    cdef void begin(self, bytes born_host, int64_t start, int64_t room, int64_t stamp) noexcept:
        """Start a run. Its records have this born host and store time `stamp`. They start at offset `start` of the log,
        where `room` bytes are free."""
        self._born_host = born_host
        self.start = start
        self._room = room
        self._stamp = stamp
        self._tags = ""
        self._last_tags_size = 0
        self.out.size = self.rows.size = 0

    cdef void end(self) noexcept:
        """Release the objects of the finished run."""
        self._tags = self._born_host = None

    cdef object _new_tags(self, Text text):
        """Return new tags, and cache them for the next message."""
        self._last_tags_size = text.size if text.size <= sizeof(self._last_tags) else -1
        if self._last_tags_size > 0:
            memcpy(self._last_tags, text.at, text.size)
        return text_of(text)

    cdef int64_t size(self, Send* send, Py_ssize_t body, Py_ssize_t properties) noexcept:
        """Return the size of a record in bytes."""
        return (
            75 + PyBytes_GET_SIZE(self._born_host) + PyBytes_GET_SIZE(self._host) + body + send.topic.size + properties
        )

    cdef bint fits(self, Send* send, Py_ssize_t body, Py_ssize_t properties) noexcept:
        """Return whether a record with a body and properties of these sizes is within all limits."""
        cdef int64_t size = self.size(send, body, properties)
        return properties <= MOST_PROPERTIES and size <= self._most and self.out.size + size <= self._room

    cdef int head(self, Send* send, int64_t flag, Text body, Py_ssize_t properties, int64_t queue_offset) except -1:
        """Write a record up to its properties. `layout.record.encode_record` names its parts."""
        cdef Buffer* b = &self.out
        cdef int64_t offset = self.start + b.size, size = self.size(send, body.size, properties)
        reserve(b, size)
        send.sys_flag &= ~HOST_FLAGS
        if PyBytes_GET_SIZE(self._born_host) > 8:
            send.sys_flag |= 0x10
        if PyBytes_GET_SIZE(self._host) > 8:
            send.sys_flag |= 0x20
        put_int(b, size, 4)
        put_int(b, 0xDAA320A7U, 4)
        put_int(b, crc32(body.at, body.size) & 0x7FFFFFFF, 4)
        put_int(b, send.queue_id, 4)
        put_int(b, flag, 4)
        put_int(b, queue_offset, 8)
        put_int(b, offset, 8)
        put_int(b, send.sys_flag, 4)
        put_int(b, send.born, 8)
        put_bytes(b, self._born_host)
        put_int(b, self._stamp, 8)
        put_bytes(b, self._host)
        put_int(b, send.reconsumed, 4)
        put_int(b, 0, 8)
        put_int(b, body.size, 4)
        put(b, body.at, body.size)
        put_int(b, send.topic.size, 1)
        put(b, send.topic.at, send.topic.size)
        put_int(b, properties, 2)
        return 0

    cdef int note(
        self, Send* send, Py_ssize_t body, Py_ssize_t properties, int place, int64_t queue_offset, bint first, list texts
    ) except -1:
        """Add row and texts of the record written last. `first`: whether it is the first record of its send."""
        cdef Buffer* b = &self.rows
        cdef uint32_t h = 0
        cdef Py_ssize_t i
        for i in range(send.tags.size):
            h = 31 * h + send.tags.at[i]
        reserve(b, 56)
        put_int(b, self.size(send, body, properties), 8)
        put_int(b, send.queue_id, 8)
        put_int(b, queue_offset, 8)
        put_int(b, <uint64_t><int64_t><int32_t>h, 8)
        put_int(b, send.sys_flag, 8)
        put_int(b, place, 8)
        put_int(b, first, 8)
        if not equal(send.tags, <const char*>self._last_tags, self._last_tags_size):
            self._tags = self._new_tags(send.tags)
        texts.append(text_of(send.uniq_key) if send.uniq_key.size > 0 else "")
        texts.append(text_of(send.keys) if send.keys.size > 0 else "")
        texts.append(self._tags)
        texts.append(
            PyBytes_FromStringAndSize(<char*>self.out.data + self.out.size - properties, properties)
        )
        return 0
