# The topics of one run of sends, and the next offset of each of their queues.

DEF MOST_TOPICS = 16
DEF MOST_QUEUES = 64

cdef struct Place:
    Text topic
    int64_t queues

cdef struct Number:
    int place
    int64_t queue_id
    int64_t next


@cython.final
@cython.internal
cdef class QueueNumbers:
    """The topics and queues of one run, by index."""

    cdef Place places[MOST_TOPICS]
    cdef Number numbers[MOST_QUEUES]
    cdef int _topics, _queues
    cdef list _known  # by topic index, a dict with the next offset of each queue
    cdef list _kept  # keeps the names alive to which `places` points

    cdef int begin(self) except -1:
        """Start a run without any topic."""
        self._topics = self._queues = 0
        self._known = []
        self._kept = []
        return 0

    cdef void end(self) noexcept:
        """Release the objects of the finished run."""
        self._known = self._kept = None

    cdef int place(self, Send* send, object find) except -2:
        """Return the index of a topic in this run, or -1 if sends to it are not simple."""
        cdef int i
        cdef bytes name
        for i in range(self._topics):
            if equal(send.topic, <const char*>self.places[i].topic.at, self.places[i].topic.size):
                return i
        if self._topics == MOST_TOPICS:
            return -1
        name = PyBytes_FromStringAndSize(<const char*>send.topic.at, send.topic.size)
        found = find(name)
        if found is None:
            return -1
        self._kept.append(name)
        i = self._topics
        self.places[i].topic.at = <const uint8_t*>PyBytes_AS_STRING(name)
        self.places[i].topic.size = send.topic.size
        self.places[i].queues = found[0]
        self._known.append(found[1])
        self._topics += 1
        return i

    cdef int queue(self, int place, int64_t queue_id) except -2:
        """Return the index of a queue in `numbers`, or -1 if its next offset is unknown."""
        cdef int i
        for i in range(self._queues):
            if self.numbers[i].queue_id == queue_id and self.numbers[i].place == place:
                return i
        if self._queues == MOST_QUEUES:
            return -1
        found = (<dict>self._known[place]).get(queue_id)
        if found is None:
            return -1
        i = self._queues
        self.numbers[i].place = place
        self.numbers[i].queue_id = queue_id
        self.numbers[i].next = found
        self._queues += 1
        return i
