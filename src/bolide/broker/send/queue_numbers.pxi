# The topics of one run of sends, and the number of the next message of each of their queues.

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
    """The topics and queues of one run, each by its place here."""

    cdef Place places[MOST_TOPICS]
    cdef Number numbers[MOST_QUEUES]
    cdef int _topics, _queues
    cdef list _known  # by place, a dict with the number of the next message of each queue
    cdef list _kept  # the names that `places` points into

    cdef int begin(self) except -1:
        """Begin a run: no topic is known."""
        self._topics = self._queues = 0
        self._known = []
        self._kept = []
        return 0

    cdef void end(self) noexcept:
        """Keep no object of the run that is over."""
        self._known = self._kept = None

    cdef int place(self, Send* send, object find) except -2:
        """The number of a topic in this run, -1 for one that is not plain."""
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
        """Where the number of the next message of a queue is kept in this run; -1 when none is known."""
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
