# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Plain sends of one read, from frames to records and answers, without an object for each of their parts.

It takes sends from the front of the bytes until one is not plain, and leaves that one and all after it to the ordinary
way: `remoting.connection`, `broker.send.send`, `append.log_writer`, `store.log.commit_log`. What it takes it turns into the
very bytes that they would have made. So it never refuses anything: whatever would be refused is not plain, and whatever
this file does not know is not plain. The tests hold the two equal.

Plain is: request 310, 320 or 10, to be answered; a header of strict JSON with the known fields once each, or a binary
one; ASCII only, but for bodies; a topic that `find` knows, and a queue of it that has a number; properties with UNIQ_KEY
(those of a batch and of the messages in it need none) and without any that asks the broker for something; lengths
within all limits; room in the file in use.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy

DEF MOST_TOPICS = 16
DEF MOST_QUEUES = 64
DEF MOST_PROPERTIES = 32767
DEF MOST_BODY = 8192  # a longer one is copied once more here than on the ordinary way
DEF MOST_BATCH = 1048576
DEF ELEMENT = 22  # bytes of a message of a batch with neither body nor properties
DEF MOST_INT32 = 2147483647

cdef enum:
    TOPIC = 1
    TOPIC_QUEUES = 3
    QUEUE = 4
    SYS_FLAG = 5
    BORN = 6
    FLAG = 7
    PROPERTIES = 8
    RECONSUMED = 9
    UNIT_MODE = 10
    MOST_RECONSUMED = 11
    BATCH = 12
    BROKER = 13
    NEEDED = 0xFF  # fields 0 to 7
    UNUSUAL_FLAGS = 0x8C  # kinds of transactions, inner batches
    HOST_FLAGS = 0x30

cdef struct Text:
    const uint8_t* at
    Py_ssize_t size

cdef struct Buffer:
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t room

cdef struct Send:
    int64_t code
    int64_t opaque
    bint binary
    bint batch
    uint32_t short_names  # a bit for each field that came under its one-letter name
    uint32_t long_names
    int64_t queue_id
    int64_t sys_flag
    int64_t born
    int64_t flag
    int64_t reconsumed
    Text topic
    Text properties
    Text uniq_key
    Text keys
    Text tags

cdef struct Place:
    Text topic
    int64_t queues

cdef struct Number:
    int place
    int64_t queue_id
    int64_t next

cdef uint32_t CRC[8][256]
cdef const char* HEX = b"0123456789ABCDEF"


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
    """The CRC of zlib, eight bytes at a time."""
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


# ---- writing


cdef int reserve(Buffer* b, Py_ssize_t more) except -1:
    """Room for `more` bytes at the end of a buffer."""
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
    """A big-endian integer of `size` bytes."""
    cdef uint8_t* to = b.data + b.size
    cdef int i = size
    while i > 0:
        i -= 1
        to[i] = <uint8_t>value
        value >>= 8
    b.size += size


cdef inline int decimal(uint8_t* to, int64_t value) noexcept nogil:
    """The digits of a number; how many they are, at most 20."""
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
    """A number as the value of a field of a binary header: its length, its digits."""
    cdef uint8_t digits[20]
    cdef int size = decimal(digits, value)
    put_int(b, size, 4)
    put(b, digits, size)


cdef inline void put_hex(Buffer* b, uint64_t value) noexcept nogil:
    """Sixteen digits."""
    cdef int i = 16
    while i > 0:
        i -= 1
        b.data[b.size + i] = <uint8_t>HEX[value & 15]
        value >>= 4
    b.size += 16


# ---- reading


cdef inline int64_t int_at(const uint8_t* p) noexcept nogil:
    return <int32_t>(<uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | <uint32_t>p[3])


cdef inline bint equal(Text text, const char* name, Py_ssize_t size) noexcept nogil:
    return text.size == size and memcmp(text.at, name, size) == 0


cdef int64_t number(Text text, int most_digits) noexcept nogil:
    """The number that these digits say, without a sign or a zero in front; -1 for anything else."""
    cdef int64_t value = 0
    cdef Py_ssize_t i
    if text.size < 1 or text.size > most_digits or (text.at[0] == 48 and text.size > 1):
        return -1
    for i in range(text.size):
        if text.at[i] < 48 or text.at[i] > 57:
            return -1
        value = 10 * value + (text.at[i] - 48)
    if most_digits == 10 and value > MOST_INT32:
        return -1
    return value


cdef const uint8_t* string_end(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """The quote that closes a JSON string of plain characters; NULL for one of others."""
    while p < end:
        if p[0] == 34:
            return p
        if p[0] < 32 or p[0] > 126 or p[0] == 92:
            return NULL
        p += 1
    return NULL


cdef const uint8_t* properties_end(const uint8_t* p, const uint8_t* end, Text* into) noexcept nogil:
    """As `string_end`, for a string that also has \\u0001 and \\u0002, which is copied to `into`."""
    cdef uint8_t* to = <uint8_t*>into.at
    cdef uint8_t c
    into.size = 0
    while p < end and into.size < MOST_PROPERTIES:
        c = p[0]
        if c == 34:
            return p
        if c == 92:
            if end - p < 6 or memcmp(p, b"\\u000", 5) != 0 or (p[5] != 49 and p[5] != 50):
                return NULL
            c = p[5] - 48
            p += 5
        elif c < 32 or c > 126:
            return NULL
        to[into.size] = c
        into.size += 1
        p += 1
    return NULL


cdef int long_field(Text name) noexcept nogil:
    """The field of a header of request 10 with this name, -1 for none."""
    if equal(name, b"producerGroup", 13):
        return 0
    if equal(name, b"topic", 5):
        return TOPIC
    if equal(name, b"defaultTopic", 12):
        return 2
    if equal(name, b"defaultTopicQueueNums", 21):
        return TOPIC_QUEUES
    if equal(name, b"queueId", 7):
        return QUEUE
    if equal(name, b"sysFlag", 7):
        return SYS_FLAG
    if equal(name, b"bornTimestamp", 13):
        return BORN
    if equal(name, b"flag", 4):
        return FLAG
    if equal(name, b"properties", 10):
        return PROPERTIES
    if equal(name, b"reconsumeTimes", 14):
        return RECONSUMED
    if equal(name, b"unitMode", 8):
        return UNIT_MODE
    if equal(name, b"maxReconsumeTimes", 17):
        return MOST_RECONSUMED
    if equal(name, b"batch", 5):
        return BATCH
    return -1


cdef int field_of(Send* send, Text name) noexcept nogil:
    """The field with this name, noted as seen; -1 for an unknown one, and for one that comes twice."""
    cdef int field
    if name.size == 1:
        field = <int>name.at[0] - 97
        if field < 0 or field > BROKER or send.short_names >> field & 1:
            return -1
        send.short_names |= 1U << field
        return field
    field = long_field(name)
    if field < 0 or send.long_names >> field & 1:
        return -1
    send.long_names |= 1U << field
    return field


cdef bint set_field(Send* send, int field, Text value) noexcept nogil:
    """Take the value of a field; False when it is not a plain one. The properties are in their place already."""
    if field == TOPIC:
        send.topic = value
    elif field == TOPIC_QUEUES or field == MOST_RECONSUMED:
        return number(value, 10) >= 0
    elif field == QUEUE:
        send.queue_id = number(value, 10)
        return send.queue_id >= 0
    elif field == SYS_FLAG:
        send.sys_flag = number(value, 10)
        return send.sys_flag >= 0
    elif field == BORN:
        send.born = number(value, 18)
        return send.born >= 0
    elif field == FLAG:
        send.flag = number(value, 10)
        return send.flag >= 0
    elif field == RECONSUMED:
        send.reconsumed = number(value, 10)
        return send.reconsumed >= 0
    elif field == UNIT_MODE:
        return equal(value, b"false", 5) or equal(value, b"true", 4)
    elif field == BATCH:
        send.batch = equal(value, b"true", 4)
        return send.batch or equal(value, b"false", 5)
    return True


cdef const uint8_t* read_fields(const uint8_t* p, const uint8_t* end, Send* send) noexcept nogil:
    """The object of the extension fields at `p`; where it ends, NULL when it is not plain."""
    cdef Text name, value
    cdef int field
    if p >= end or p[0] != 123:
        return NULL
    while True:
        p += 1  # the brace or the comma
        if p >= end or p[0] != 34:
            return NULL
        name.at = p + 1
        p = string_end(name.at, end)
        if p == NULL or end - p < 3 or p[1] != 58 or p[2] != 34:
            return NULL
        name.size = p - name.at
        field = field_of(send, name)
        if field < 0:
            return NULL
        value.at = p + 3
        if field == PROPERTIES:
            p = properties_end(value.at, end, &send.properties)
        else:
            p = string_end(value.at, end)
        if p == NULL:
            return NULL
        value.size = p - value.at
        if not set_field(send, field, value):
            return NULL
        p += 1
        if p >= end:
            return NULL
        if p[0] == 125:
            return p + 1
        if p[0] != 44:
            return NULL


cdef const uint8_t* read_number(const uint8_t* p, const uint8_t* end, int64_t* into) noexcept nogil:
    """A JSON number of 32 bits at `p`; where it ends, NULL when it is none."""
    cdef Text digits
    cdef bint negative = p < end and p[0] == 45
    if negative:
        p += 1
    digits.at = p
    while p < end and p[0] >= 48 and p[0] <= 57:
        p += 1
    digits.size = p - digits.at
    into[0] = number(digits, 10)
    if into[0] < 0 or (negative and into[0] == 0):
        return NULL
    if negative:
        into[0] = -into[0]
    return p


cdef bint read_json(const uint8_t* p, const uint8_t* end, Send* send) noexcept nogil:
    """A JSON header; False when it is not that of a plain send."""
    cdef Text name
    cdef int64_t ignored = 0, flag = -1
    cdef uint32_t seen = 0, bit
    if p >= end or p[0] != 123:
        return False
    while True:
        p += 1  # the brace or the comma
        if p >= end or p[0] != 34:
            return False
        name.at = p + 1
        p = string_end(name.at, end)
        if p == NULL or end - p < 3 or p[1] != 58:
            return False
        name.size = p - name.at
        p += 2
        if equal(name, b"extFields", 9):
            bit = 1
            p = read_fields(p, end, send)
        elif equal(name, b"code", 4):
            bit = 2
            p = read_number(p, end, &send.code)
        elif equal(name, b"flag", 4):
            bit = 4
            p = read_number(p, end, &flag)
        elif equal(name, b"opaque", 6):
            bit = 8
            p = read_number(p, end, &send.opaque)
        elif equal(name, b"version", 7):
            bit = 16
            p = read_number(p, end, &ignored)
        elif equal(name, b"language", 8):
            bit = 32
            p = NULL if p[0] != 34 else string_end(p + 1, end)
            p = NULL if p == NULL else p + 1
        elif equal(name, b"serializeTypeCurrentRPC", 23):
            bit = 64
            p = NULL if p[0] != 34 else string_end(p + 1, end)
            p = NULL if p == NULL else p + 1
        else:
            return False
        if p == NULL or p >= end or seen & bit:
            return False
        seen |= bit
        if p[0] == 125:
            return p + 1 == end and seen & 15 == 15 and flag == 0
        if p[0] != 44:
            return False


cdef bint plain_characters(Text properties) noexcept nogil:
    """True when these properties are ASCII, with no control characters but their separators."""
    cdef Py_ssize_t i
    for i in range(properties.size):
        if (properties.at[i] < 32 and properties.at[i] != 1 and properties.at[i] != 2) or properties.at[i] > 126:
            return False
    return True


cdef bint read_binary(const uint8_t* p, const uint8_t* end, Send* send) noexcept nogil:
    """A binary header; False when it is not that of a plain send."""
    cdef Text name, value
    cdef Py_ssize_t i
    cdef int field
    if end - p < 21 or int_at(p + 9) != 0 or int_at(p + 13) != 0 or int_at(p + 17) != end - p - 21:
        return False
    send.code = <int64_t>p[0] << 8 | p[1]
    send.opaque = int_at(p + 5)
    p += 21
    while p < end:
        if end - p < 2:
            return False
        name.size = <Py_ssize_t>p[0] << 8 | p[1]
        name.at = p + 2
        if name.size < 1 or name.size > end - name.at - 4:
            return False
        p = name.at + name.size
        value.size = int_at(p)
        value.at = p + 4
        if value.size < 1 or value.size > end - value.at:
            return False
        p = value.at + value.size
        field = field_of(send, name)
        if field < 0:
            return False
        if field == PROPERTIES:
            if value.size >= MOST_PROPERTIES:
                return False
            if not plain_characters(value):
                return False
            send.properties = value
        else:
            for i in range(value.size):
                if value.at[i] < 32 or value.at[i] > 126:
                    return False
            if not set_field(send, field, value):
                return False
    return True


cdef object text_of(Text text):
    return PyUnicode_DecodeASCII(<const char*>text.at, text.size, NULL)


cdef class SendKernel:
    """Of one broker. `pieces` are what `SendResponses.pieces` gives; `suffix` is added to all properties; properties
    with one of these `names`, or with a name that begins with `prefix`, are not plain. `host` is stored as the broker's;
    `most` are the bytes a frame, a body and a record may have, and the messages of a batch. `light_body` bytes of a body
    weigh as much as a send."""

    cdef list _pieces
    cdef list _names
    cdef bytes _suffix, _prefix, _host, _host_hex, _born_host
    cdef object _tags
    cdef int64_t _start, _room, _stamp
    cdef int64_t _most_body, _most_record, _most_frame, _most_batch, _most_messages, _light_body
    cdef Buffer _records, _answers, _rows
    cdef uint8_t* _scratch
    cdef Place _places[MOST_TOPICS]
    cdef Number _numbers[MOST_QUEUES]
    cdef uint8_t _last_tags[256]
    cdef Py_ssize_t _last_tags_size, _answer_room
    cdef int _topics, _queues

    def __cinit__(self):
        self._scratch = <uint8_t*>malloc(MOST_PROPERTIES + 1)
        if self._scratch == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self._scratch)
        free(self._records.data)
        free(self._answers.data)
        free(self._rows.data)

    def __init__(
        self, list pieces, list names, bytes prefix, bytes suffix, bytes host, tuple most, int64_t light_body
    ):
        most_frame, most_body, most_record, most_messages = most
        self._pieces = pieces
        self._names = names
        self._prefix = prefix
        self._suffix = suffix
        self._host = host
        self._host_hex = host.hex().upper().encode()
        self._most_body = most_body if most_body < MOST_BODY else MOST_BODY
        self._most_batch = most_body if most_body < MOST_BATCH else MOST_BATCH
        self._most_messages = most_messages
        self._most_record = most_record
        self._most_frame = most_frame
        self._light_body = light_body
        self._answer_room = 256 + len(self._host_hex) + sum(map(len, pieces))

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
        """Take the plain sends of `data` from byte `at` on, until they weigh `enough`: None when there is none, else a
        tuple.

        It holds: where they end, how many they are, what they weigh, the bytes of the records of the first of them, all
        records, all answers, a row for each record and its texts (see `store.append_run`). `find` gives the number of queues of a
        topic, and a dict with the number of the next message of each; None for a topic that is not plain. Records are
        stored from offset `start` on, into `room` bytes, with the time `stamp`.
        """
        cdef const uint8_t* base = <const uint8_t*>PyBytes_AS_STRING(data)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data), length, header_size
        cdef Send send
        cdef Text body
        cdef const uint8_t* header
        cdef int place, queue
        cdef int64_t stored, before, first_size = 0, weight = 0
        cdef Py_ssize_t count = 0
        cdef list texts = [], known = [], kept = []
        self._born_host = born_host
        self._start = start
        self._room = room
        self._stamp = stamp
        self._tags = ""
        self._last_tags_size = 0
        self._topics = self._queues = 0
        self._records.size = self._answers.size = self._rows.size = 0
        while weight < enough and end - at >= 8:
            length = int_at(base + at)
            header_size = int_at(base + at + 4) & 0xFFFFFF
            if length < 4 or length > end - at - 4 or length > self._most_frame - 4 or header_size > length - 4:
                break
            header = base + at + 8
            body.at = header + header_size
            body.size = length - 4 - header_size
            if not self._read(&send, base[at + 4], header, body.at) or not self._scan(&send, send.properties):
                break
            if memchr(send.uniq_key.at, 1, send.uniq_key.size) != NULL:
                break  # in the answer as it is: a quote or a backslash comes in a binary header only, and leaves in one
            place = self._place(&send, find, known, kept)
            if place < 0 or send.queue_id >= self._places[place].queues:
                break
            queue = self._queue(place, send.queue_id, known)
            if queue < 0:
                break
            before = self._records.size
            if send.batch:
                stored = self._batch(&send, body, place, queue, texts)
            else:
                stored = self._single(&send, body, place, queue, texts)
            if stored == 0:
                break
            if count == 0:
                first_size = self._records.size
            self._answer(&send, self._numbers[queue].next - stored, start + before, stored)
            count += 1
            weight += 1 + body.size // self._light_body
            at += 4 + length
        self._tags = self._born_host = None
        if count == 0:
            return None
        return (
            at,
            count,
            weight,
            first_size,
            PyBytes_FromStringAndSize(<char*>self._records.data, self._records.size),
            PyBytes_FromStringAndSize(<char*>self._answers.data, self._answers.size),
            PyBytes_FromStringAndSize(<char*>self._rows.data, self._rows.size),
            texts,
        )

    cdef int64_t _single(self, Send* send, Text body, int place, int queue, list texts) except -1:
        """Store one message; 0 when it is not plain, else 1."""
        cdef Py_ssize_t properties = send.properties.size + PyBytes_GET_SIZE(self._suffix)
        if send.uniq_key.size == 0 or body.size > self._most_body:
            return 0
        if send.properties.at[send.properties.size - 1] != 2:
            properties += 1
        if not self._fits(send, body.size, properties):
            return 0
        self._head(send, send.flag, body, properties, self._numbers[queue].next)
        put(&self._records, send.properties.at, send.properties.size)
        if send.properties.at[send.properties.size - 1] != 2:
            put_int(&self._records, 2, 1)
        put_bytes(&self._records, self._suffix)
        self._note(send, body.size, properties, place, self._numbers[queue].next, True, texts)
        self._numbers[queue].next += 1
        return 1

    cdef int64_t _batch(self, Send* send, Text body, int place, int queue, list texts) except -1:
        """Store the messages of a batch, as they are; 0 when one is not plain, else how many they are."""
        cdef const uint8_t* p = body.at
        cdef const uint8_t* end = p + body.size
        cdef Text properties, content, uniq_key = send.uniq_key
        cdef int64_t size, flag, count = 0
        cdef Py_ssize_t records = self._records.size, rows = self._rows.size, known = len(texts)
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
            if not self._scan(send, properties) or not self._fits(send, content.size, properties.size):
                break
            self._head(send, flag, content, properties.size, self._numbers[queue].next + count)
            put(&self._records, properties.at, properties.size)
            self._note(send, content.size, properties.size, place, self._numbers[queue].next + count, count == 0, texts)
            count += 1
            p += size
            good = True
        if not good:
            self._records.size = records
            self._rows.size = rows
            del texts[known:]
            return 0
        send.uniq_key = uniq_key
        self._numbers[queue].next += count
        return count

    cdef object _new_tags(self, Text text):
        """Tags that differ from those of the message before."""
        self._last_tags_size = text.size if text.size <= sizeof(self._last_tags) else -1
        if self._last_tags_size > 0:
            memcpy(self._last_tags, text.at, text.size)
        return text_of(text)

    cdef bint _read(self, Send* send, int kind, const uint8_t* header, const uint8_t* end) noexcept:
        """Read a header; False when it is not plain by itself."""
        send.short_names = send.long_names = 0
        send.reconsumed = send.sys_flag = 0
        send.batch = False
        send.binary = kind == 1
        send.properties.at = self._scratch
        send.properties.size = 0
        if kind == 0:
            if not read_json(header, end, send):
                return False
        elif kind != 1 or not read_binary(header, end, send):
            return False
        if send.sys_flag & UNUSUAL_FLAGS:
            return False
        if send.code == 310 or send.code == 320:
            return send.long_names == 0 and send.short_names & NEEDED == NEEDED
        return send.code == 10 and send.short_names == 0 and send.long_names & NEEDED == NEEDED

    cdef bint _scan(self, Send* send, Text properties) noexcept:
        """Find the key, the keys and the tags among properties; False when they ask for something."""
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

    cdef int _place(self, Send* send, object find, list known, list kept) except -2:
        """The number of a topic in this run, -1 for one that is not plain."""
        cdef int i
        cdef bytes name
        for i in range(self._topics):
            if equal(send.topic, <const char*>self._places[i].topic.at, self._places[i].topic.size):
                return i
        if self._topics == MOST_TOPICS:
            return -1
        name = PyBytes_FromStringAndSize(<const char*>send.topic.at, send.topic.size)
        found = find(name)
        if found is None:
            return -1
        kept.append(name)
        i = self._topics
        self._places[i].topic.at = <const uint8_t*>PyBytes_AS_STRING(name)
        self._places[i].topic.size = send.topic.size
        self._places[i].queues = found[0]
        known.append(found[1])
        self._topics += 1
        return i

    cdef int _queue(self, int place, int64_t queue_id, list known) except -2:
        """Where the number of the next message of a queue is kept in this run; -1 when none is known."""
        cdef int i
        for i in range(self._queues):
            if self._numbers[i].queue_id == queue_id and self._numbers[i].place == place:
                return i
        if self._queues == MOST_QUEUES:
            return -1
        found = (<dict>known[place]).get(queue_id)
        if found is None:
            return -1
        i = self._queues
        self._numbers[i].place = place
        self._numbers[i].queue_id = queue_id
        self._numbers[i].next = found
        self._queues += 1
        return i

    cdef int64_t _size(self, Send* send, Py_ssize_t body, Py_ssize_t properties) noexcept:
        """Bytes of a record."""
        return (
            75 + PyBytes_GET_SIZE(self._born_host) + PyBytes_GET_SIZE(self._host) + body + send.topic.size + properties
        )

    cdef bint _fits(self, Send* send, Py_ssize_t body, Py_ssize_t properties) noexcept:
        cdef int64_t size = self._size(send, body, properties)
        return properties <= MOST_PROPERTIES and size <= self._most_record and self._records.size + size <= self._room

    cdef int _head(self, Send* send, int64_t flag, Text body, Py_ssize_t properties, int64_t queue_offset) except -1:
        """Write a record up to its properties; `layout.record.encode_record` names its parts."""
        cdef Buffer* b = &self._records
        cdef int64_t offset = self._start + b.size, size = self._size(send, body.size, properties)
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

    cdef int _note(
        self, Send* send, Py_ssize_t body, Py_ssize_t properties, int place, int64_t queue_offset, bint first, list texts
    ) except -1:
        """Row and texts of the record written last. `first` = it is the first of its send."""
        cdef Buffer* b = &self._rows
        cdef uint32_t h = 0
        cdef Py_ssize_t i
        for i in range(send.tags.size):
            h = 31 * h + send.tags.at[i]
        reserve(b, 56)
        put_int(b, self._size(send, body, properties), 8)
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
            PyBytes_FromStringAndSize(<char*>self._records.data + self._records.size - properties, properties)
        )
        return 0

    cdef int _put_ids(self, int64_t offset, int64_t count) except -1:
        """Write the message ids of a send whose first record is at an offset of the log."""
        cdef Buffer* b = &self._answers
        cdef const uint8_t* record = self._records.data + (offset - self._start)
        while True:
            put_bytes(b, self._host_hex)
            put_hex(b, offset)
            count -= 1
            if count == 0:
                return 0
            put_int(b, 44, 1)
            offset += int_at(record)
            record += int_at(record)

    cdef int _answer(self, Send* send, int64_t queue_offset, int64_t offset, int64_t count) except -1:
        """Write the frame that says that messages are stored; `SendResponses.encode` names its parts."""
        cdef Buffer* b = &self._answers
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
            self._put_ids(offset, count)
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
            self._put_ids(offset, count)
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
