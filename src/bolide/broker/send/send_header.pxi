# Parses the frame of a send and its header, JSON or binary, without an object per part.

DEF MOST_PROPERTIES = 32767
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

cdef struct Frame:
    Py_ssize_t size
    int kind  # of the header: 0 JSON, 1 binary
    const uint8_t* header
    const uint8_t* header_end
    Text body

cdef struct Send:
    int64_t code
    int64_t opaque
    bint binary
    bint batch
    uint32_t short_names  # one bit for each field with a one-letter name
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


cdef inline int64_t int_at(const uint8_t* p) noexcept nogil:
    return <int32_t>(<uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | <uint32_t>p[3])


cdef inline bint read_frame(const uint8_t* p, Py_ssize_t left, int64_t most, Frame* into) noexcept nogil:
    """Find the parts of the frame at `p`. Return False if it is incomplete, invalid or longer than `most` bytes."""
    cdef Py_ssize_t length, header_size
    if left < 8:
        return False
    length = int_at(p)
    header_size = int_at(p + 4) & 0xFFFFFF
    if length < 4 or length > left - 4 or length > most - 4 or header_size > length - 4:
        return False
    into.size = 4 + length
    into.kind = p[4]
    into.header = p + 8
    into.body.at = into.header_end = into.header + header_size
    into.body.size = length - 4 - header_size
    return True


cdef inline bint equal(Text text, const char* name, Py_ssize_t size) noexcept nogil:
    return text.size == size and memcmp(text.at, name, size) == 0


cdef int64_t number(Text text, int most_digits) noexcept nogil:
    """Return the number of up to `most_digits` digits without sign and leading zero, or -1 for anything else."""
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
    """Return the closing quote of a JSON string of printable ASCII without escapes, or NULL for another string."""
    while p < end:
        if p[0] == 34:
            return p
        if p[0] < 32 or p[0] > 126 or p[0] == 92:
            return NULL
        p += 1
    return NULL


cdef const uint8_t* properties_end(const uint8_t* p, const uint8_t* end, Text* into) noexcept nogil:
    """Like `string_end`, but also accept \\u0001 and \\u0002. Copy the decoded string to `into`."""
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
    """Return the field of a request 10 header with this name, or -1."""
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
    """Return the field with this name and mark it as seen, or return -1 for an unknown or repeated name."""
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
    """Set the value of a field. Return False if the send is then not simple. Properties have been set before."""
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
    """Read the JSON object of the extension fields at `p`. Return its end, or NULL if the send is not simple."""
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
    """Read a JSON number of 32 bits at `p`. Return its end, or NULL if there is no such number."""
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
    """Read a JSON header. Return False if it is not the header of a simple send."""
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
    """Return whether these properties are ASCII, without control characters other than their separators."""
    cdef Py_ssize_t i
    for i in range(properties.size):
        if (properties.at[i] < 32 and properties.at[i] != 1 and properties.at[i] != 2) or properties.at[i] > 126:
            return False
    return True


cdef bint read_binary(const uint8_t* p, const uint8_t* end, Send* send) noexcept nogil:
    """Read a binary header. Return False if it is not the header of a simple send."""
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
