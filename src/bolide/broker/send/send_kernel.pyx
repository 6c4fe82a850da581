# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Converts the simple sends of one read from frames to records and responses, without an object per part.

Processes sends in order up to the first one that is not simple. That send and all later ones take the slow path:
`remoting.connection`, `broker.send.send`, `append.log_writer`, `store.log.commit_log`. The bytes are the same on both
paths, and the tests check this. The kernel never rejects a send: a send that would be rejected, or that has a feature
unknown to this file, is not simple.

A send is simple under these conditions: request 310, 320 or 10 with a response; a header of strict JSON in which each
known field occurs once, or a binary header; only ASCII outside bodies; a topic that `find` returns, and a queue whose
next offset is known; properties with UNIQ_KEY (batches and their messages do not need it) and without properties by
which a message controls the broker; lengths within all limits; room in the current log file.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy

DEF MOST_BODY = 8192  # this path copies a longer body once more than the slow path
DEF MOST_BATCH = 1048576
DEF ELEMENT = 22  # size of a message in a batch without body and properties

include "../../layout/crc32.pxi"
include "byte_buffer.pxi"
include "send_header.pxi"
include "queue_numbers.pxi"
include "send_records.pxi"
include "send_answers.pxi"


cdef class SendKernel:
    """The kernel of one broker. `pieces`: the result of `SendResponses.pieces`; `suffix`: appended to all properties.

    Sends with a property in `names`, or whose name starts with `prefix`, are not simple. `host`: store host; `most`:
    maximum bytes of a frame, a body and a record, and maximum messages of a batch; `light_body`: body bytes that add 1
    to the weight of a send.
    """

    cdef list _names
    cdef bytes _suffix, _prefix
    cdef int64_t _most_body, _most_frame, _most_batch, _most_messages, _light_body
    cdef QueueNumbers _queues
    cdef SendRecords _stored
    cdef SendAnswers _answers
    cdef uint8_t* _scratch

    def __cinit__(self):
        self._scratch = <uint8_t*>malloc(MOST_PROPERTIES + 1)
        if self._scratch == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self._scratch)

    def __init__(
        self, list pieces, list names, bytes prefix, bytes suffix, bytes host, tuple most, int64_t light_body
    ):
        most_frame, most_body, most_record, most_messages = most
        self._queues = QueueNumbers()
        self._stored = SendRecords(host, most_record)
        self._answers = SendAnswers(pieces, host)
        self._names = names
        self._prefix = prefix
        self._suffix = suffix
        self._most_body = most_body if most_body < MOST_BODY else MOST_BODY
        self._most_batch = most_body if most_body < MOST_BATCH else MOST_BATCH
        self._most_messages = most_messages
        self._most_frame = most_frame
        self._light_body = light_body

    def take(
        self,
        bytes data not None,
        Py_ssize_t at,
        int64_t enough,
        object find,
        bytes born_host not None,
        int64_t start,
        int64_t room,
        int64_t stamp,
    ):
        """Convert the simple sends of `data` that start at byte `at`, until their weight reaches `enough`.

        Return None if the first send is not simple, otherwise a tuple: end, number and weight of the sends, size of the
        first send's records, all records, all responses, a row for each record, and the texts of the rows (see
        `store.append_run`). `find` returns the number of queues of a topic and a dict with the next offset of each
        queue, or None if sends to the topic are not simple. The first record is at offset `start` of the log, where
        `room` bytes are free. `stamp`: store time.
        """
        cdef const uint8_t* base = <const uint8_t*>PyBytes_AS_STRING(data)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
        cdef Frame frame
        cdef int64_t first_size = 0, weight = 0
        cdef Py_ssize_t count = 0
        cdef list texts = []
        self._begin(born_host, start, room, stamp)
        while weight < enough and read_frame(base + at, end - at, self._most_frame, &frame):
            if not self._take(&frame, find, start, texts):
                break
            if count == 0:
                first_size = self._stored.out.size
            count += 1
            weight += 1 + frame.body.size // self._light_body
            at += frame.size
        return self._taken(at, count, weight, first_size, texts)

    def take_long(
        self,
        bytes head not None,
        bytes body not None,
        object find,
        bytes born_host not None,
        int64_t start,
        int64_t room,
        int64_t stamp,
    ):
        """Convert one send whose frame is in two parts, `head` and `body`. Like `take`, but the returned end is 0."""
        cdef Frame frame
        cdef list texts = []
        frame.kind = (<const uint8_t*>PyBytes_AS_STRING(head))[4]
        frame.header = <const uint8_t*>PyBytes_AS_STRING(head) + 8
        frame.header_end = <const uint8_t*>PyBytes_AS_STRING(head) + PyBytes_GET_SIZE(head)
        frame.body.at = <const uint8_t*>PyBytes_AS_STRING(body)
        frame.body.size = PyBytes_GET_SIZE(body)
        self._begin(born_host, start, room, stamp)
        cdef bint taken = self._take(&frame, find, start, texts)
        cdef int64_t weight = 1 + frame.body.size // self._light_body
        return self._taken(0, taken, weight, self._stored.out.size, texts)

    cdef int _begin(self, bytes born_host, int64_t start, int64_t room, int64_t stamp) except -1:
        self._queues.begin()
        self._stored.begin(born_host, start, room, stamp)
        self._answers.out.size = 0
        return 0

    cdef bint _take(self, Frame* frame, object find, int64_t start, list texts) except -1:
        """Store the messages of a frame and write its response. Return False without changes if it is not simple."""
        cdef Send send
        cdef int place, queue
        cdef int64_t stored, before
        cdef QueueNumbers queues = self._queues
        cdef SendRecords records = self._stored
        if not self._read(&send, frame) or not self._scan(&send, send.properties):
            return False
        if memchr(send.uniq_key.at, 1, send.uniq_key.size) != NULL:
            return False  # the response contains the key unescaped, with a quote or a backslash from a binary header
        place = queues.place(&send, find)
        if place < 0 or send.queue_id >= queues.places[place].queues:
            return False
        queue = queues.queue(place, send.queue_id)
        if queue < 0:
            return False
        before = records.out.size
        if send.batch:
            stored = self._batch(&send, frame.body, place, queue, texts)
        else:
            stored = self._single(&send, frame.body, place, queue, texts)
        if stored == 0:
            return False
        self._answers.write(
            &send, queues.numbers[queue].next - stored, records.out.data + before, start + before, stored
        )
        return True

    cdef tuple _taken(self, Py_ssize_t at, Py_ssize_t count, int64_t weight, int64_t first_size, list texts):
        """Return the result of `take`."""
        cdef SendRecords records = self._stored
        cdef SendAnswers answers = self._answers
        self._queues.end()
        records.end()
        if count == 0:
            return None
        return (
            at,
            count,
            weight,
            first_size,
            PyBytes_FromStringAndSize(<char*>records.out.data, records.out.size),
            PyBytes_FromStringAndSize(<char*>answers.out.data, answers.out.size),
            PyBytes_FromStringAndSize(<char*>records.rows.data, records.rows.size),
            texts,
        )

    cdef int64_t _single(self, Send* send, Text body, int place, int queue, list texts) except -1:
        """Store one message. Return 1, or 0 if it is not simple."""
        cdef SendRecords records = self._stored
        cdef Number* number = &self._queues.numbers[queue]
        cdef Py_ssize_t properties = send.properties.size + PyBytes_GET_SIZE(self._suffix)
        if send.uniq_key.size == 0 or body.size > self._most_body:
            return 0
        if send.properties.at[send.properties.size - 1] != 2:
            properties += 1
        if not records.fits(send, body.size, properties):
            return 0
        records.head(send, send.flag, body, properties, number.next)
        put(&records.out, send.properties.at, send.properties.size)
        if send.properties.at[send.properties.size - 1] != 2:
            put_int(&records.out, 2, 1)
        put_bytes(&records.out, self._suffix)
        records.note(send, body.size, properties, place, number.next, True, texts)
        number.next += 1
        return 1

    cdef int64_t _batch(self, Send* send, Text body, int place, int queue, list texts) except -1:
        """Store the messages of a batch unchanged. Return their number, or 0 if one is not simple."""
        cdef const uint8_t* p = body.at
        cdef const uint8_t* end = p + body.size
        cdef Text properties, content, uniq_key = send.uniq_key
        cdef int64_t size, flag, count = 0
        cdef SendRecords records = self._stored
        cdef Number* number = &self._queues.numbers[queue]
        cdef Py_ssize_t size_before = records.out.size, rows_before = records.rows.size, known = len(texts)
        cdef bint good = body.size > 0 and body.size <= self._most_batch
        while good and p < end:
            good = False
            if end - p < ELEMENT or count == self._most_messages:
                break
            size = int_at(p)
            content.size = int_at(p + 16)
            if size < ELEMENT or size > end - p or content.size < 0 or content.size > size - ELEMENT:
                break
            flag = int_at(p + 12)
            content.at = p + 20
            properties.at = content.at + content.size + 2
            properties.size = size - ELEMENT - content.size
            if (<Py_ssize_t>properties.at[-2] << 8 | properties.at[-1]) != properties.size:
                break
            if properties.size > MOST_PROPERTIES or not plain_characters(properties):
                break
            if not self._scan(send, properties) or not records.fits(send, content.size, properties.size):
                break
            records.head(send, flag, content, properties.size, number.next + count)
            put(&records.out, properties.at, properties.size)
            records.note(send, content.size, properties.size, place, number.next + count, count == 0, texts)
            count += 1
            p += size
            good = True
        if not good:
            records.out.size = size_before
            records.rows.size = rows_before
            del texts[known:]
            return 0
        send.uniq_key = uniq_key
        number.next += count
        return count

    cdef bint _read(self, Send* send, Frame* frame) noexcept:
        """Read a header. Return False if it is not the header of a simple send."""
        send.short_names = send.long_names = 0
        send.reconsumed = send.sys_flag = 0
        send.batch = False
        send.binary = frame.kind == 1
        send.properties.at = self._scratch
        send.properties.size = 0
        if frame.kind == 0:
            if not read_json(frame.header, frame.header_end, send):
                return False
        elif frame.kind != 1 or not read_binary(frame.header, frame.header_end, send):
            return False
        if send.sys_flag & UNUSUAL_FLAGS:
            return False
        if send.code == 310 or send.code == 320:
            return send.long_names == 0 and send.short_names & NEEDED == NEEDED
        return send.code == 10 and send.short_names == 0 and send.long_names & NEEDED == NEEDED

    cdef bint _scan(self, Send* send, Text properties) noexcept:
        """Find UNIQ_KEY, KEYS and TAGS in properties. Return False if a property makes the send not simple."""
        cdef const uint8_t* p = properties.at
        cdef const uint8_t* end = p + properties.size
        cdef const uint8_t* stop
        cdef Text name, value
        cdef bytes other
        send.uniq_key.at = send.keys.at = send.tags.at = p
        send.uniq_key.size = send.keys.size = send.tags.size = 0
        while p < end:
            stop = <const uint8_t*>memchr(p, 2, end - p)
            if stop == NULL:
                stop = end
            if stop > p:
                name.at = p
                value.at = <const uint8_t*>memchr(p, 1, stop - p)
                if value.at == NULL or value.at == p or value.at + 1 == stop:
                    return False
                name.size = value.at - p
                value.at += 1
                value.size = stop - value.at
                if equal(name, b"UNIQ_KEY", 8):
                    send.uniq_key = value
                elif equal(name, b"KEYS", 4):
                    send.keys = value
                elif equal(name, b"TAGS", 4):
                    send.tags = value
                elif equal(name, b"WAIT", 4):
                    if not equal(value, b"true", 4):
                        return False
                else:
                    for other in self._names:
                        if equal(name, PyBytes_AS_STRING(other), PyBytes_GET_SIZE(other)):
                            return False
                    if name.size >= PyBytes_GET_SIZE(self._prefix):
                        name.size = PyBytes_GET_SIZE(self._prefix)
                        if equal(name, PyBytes_AS_STRING(self._prefix), name.size):
                            return False
            p = stop + 1
        return True
