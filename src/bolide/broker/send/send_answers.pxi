# The responses to one run of sends.

@cython.final
@cython.internal
cdef class SendAnswers:
    """The responses of one run. `pieces`: the result of `SendResponses.pieces`; `host`: a part of each message id."""

    cdef Buffer out
    cdef list _pieces
    cdef bytes _host_hex
    cdef Py_ssize_t _answer_room

    def __init__(self, list pieces, bytes host):
        self._pieces = pieces
        self._host_hex = host.hex().upper().encode()
        self._answer_room = 256 + len(self._host_hex) + sum(map(len, pieces))

    def __dealloc__(self):
        free(self.out.data)

    cdef int _put_ids(self, const uint8_t* record, int64_t offset, int64_t count) except -1:
        """Write the message ids of a send, whose first `record` is at this offset of the log."""
        cdef Buffer* b = &self.out
        while True:
            put_bytes(b, self._host_hex)
            put_hex(b, offset)
            count -= 1
            if count == 0:
                return 0
            put_int(b, 44, 1)
            offset += int_at(record)
            record += int_at(record)

    cdef int write(
        self, Send* send, int64_t queue_offset, const uint8_t* record, int64_t offset, int64_t count
    ) except -1:
        """Write the response frame for `count` stored messages. The first `record` is at this offset of the log.

        `SendResponses.encode` names the parts of the frame.
        """
        cdef Buffer* b = &self.out
        cdef Py_ssize_t at, fields, after, id_size = PyBytes_GET_SIZE(self._host_hex) + 16
        cdef list pieces = self._pieces
        reserve(b, self._answer_room + send.uniq_key.size + count * (id_size + 1))
        at = b.size
        b.size += 8
        if send.binary:
            put_bytes(b, <bytes>pieces[6])
            put_int(b, send.opaque, 4)
            put_int(b, 1, 4)
            put_int(b, 0, 4)
            fields = b.size
            b.size += 4
            put_bytes(b, <bytes>pieces[7])
            put_sized_decimal(b, send.queue_id)
            put_bytes(b, <bytes>pieces[8])
            put_int(b, count * (id_size + 1) - 1, 4)
            self._put_ids(record, offset, count)
            put_bytes(b, <bytes>pieces[9])
            put_sized_decimal(b, queue_offset)
            if send.uniq_key.size > 0:
                put_bytes(b, <bytes>pieces[10])
                put_int(b, send.uniq_key.size, 4)
                put(b, send.uniq_key.at, send.uniq_key.size)
            after = b.size
            b.size = fields
            put_int(b, after - fields - 4, 4)
            b.size = after
        else:
            put_bytes(b, <bytes>pieces[0])
            put_decimal(b, send.queue_id)
            put_bytes(b, <bytes>pieces[1])
            self._put_ids(record, offset, count)
            put_bytes(b, <bytes>pieces[2])
            put_decimal(b, queue_offset)
            if send.uniq_key.size > 0:
                put_bytes(b, <bytes>pieces[3])
                put(b, send.uniq_key.at, send.uniq_key.size)
            put_bytes(b, <bytes>pieces[4])
            put_decimal(b, send.opaque)
            put_bytes(b, <bytes>pieces[5])
        after = b.size
        b.size = at
        put_int(b, after - at - 4, 4)
        put_int(b, (<uint64_t>send.binary) << 24 | <uint64_t>(after - at - 8), 4)
        b.size = after
        return 0
