/* Stores nothing and answers at once: the ceiling of the generator and the network. Sends are answered with SEND_OK,
   commits with success, pulls with as many messages as they ask for.

   usage: null_server PORT [RECORD_BYTES]        (port 0: any; prints "ready PORT") */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/epoll.h>

#include "wire.h"

#define READ_SIZE (1 << 20)
#define PULL_MESSAGE 11
#define MOST_PULLED 1024

struct connection {
    int fd;
    struct bytes in, out;
};

static char *records;
static size_t record_size = 366;

/* Answers of a pull are the longer ones: the records are the same for all. */
static void answer(struct connection *c, const char *header, size_t header_size) {
    long long opaque = json_number(header, header_size, "\"opaque\":", -1);
    long long count = json_number(header, header_size, "\"code\":", 0) == PULL_MESSAGE
        ? json_number(header, header_size, "\"maxMsgNums\":", 32) : 0;
    long long next = json_number(header, header_size, "\"queueOffset\":", 0) + count;
    if (count > MOST_PULLED) count = MOST_PULLED;
    size_t body = (size_t)count * record_size;
    char *to = want_room(&c->out, 1024 + body);
    int size = count
        ? sprintf(to + 8, "{\"code\":0,\"extFields\":{\"minOffset\":\"0\",\"maxOffset\":\"1000000000\",\"nextBeginOffset\":\"%lld\","
            "\"suggestWhichBrokerId\":\"0\"},\"flag\":1,\"language\":\"JAVA\",\"opaque\":%lld,"
            "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}", next, opaque)
        : sprintf(to + 8, "{\"code\":0,\"extFields\":{\"queueId\":\"0\",\"TRACE_ON\":\"true\",\"MSG_REGION\":\"DefaultRegion\","
            "\"msgId\":\"7F00000100002A9F0000000000000000\",\"queueOffset\":\"0\"},\"flag\":1,\"language\":\"JAVA\","
            "\"opaque\":%lld,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}", opaque);
    put_u32(to, (uint32_t)((size_t)size + 4 + body));
    put_u32(to + 4, (uint32_t)size);
    memcpy(to + 8 + size, records, body);
    c->out.end += (size_t)size + 8 + body;
}

/* Returns 0 when the peer is gone. */
static int serve(struct connection *c) {
    struct bytes *in = &c->in;
    char *to = want_room(in, READ_SIZE);
    ssize_t got = read(c->fd, to, in->room - in->end);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    in->end += (size_t)got;
    while (in->end - in->begin >= 8) {
        char *frame = in->data + in->begin;
        size_t length = get_u32(frame);
        if (length > (64u << 20)) return 0;
        if (in->end - in->begin < length + 4) break;
        answer(c, frame + 8, get_u32(frame + 4) & 0xffffff);
        in->begin += length + 4;
    }
    return write_out(c->fd, &c->out);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* a generator closes its connections with answers on the way */
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? (uint16_t)atoi(argv[1]) : 0)};
    if (argc > 2) record_size = (size_t)atol(argv[2]);
    records = calloc(MOST_PULLED, record_size);
    for (size_t i = 0; i < MOST_PULLED; i++) put_u32(records + i * record_size, (uint32_t)record_size);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 512) < 0) fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("ready %d\n", ntohs(address.sin_port));
    fflush(stdout);
    int poll = epoll_create1(0);
    struct epoll_event events[256], event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(poll, events, 256, -1);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (c == NULL) {
                int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (fd < 0) continue;
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                c = calloc(1, sizeof *c);
                c->fd = fd;
                event.events = EPOLLIN;
                event.data.ptr = c;
                epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
            } else if (events[i].events & EPOLLOUT ? !write_out(c->fd, &c->out) : !serve(c)) {
                close(c->fd);
                free(c->in.data);
                free(c->out.data);
                free(c);
                continue;
            }
            /* What the socket did not take goes once it has room; meanwhile nothing more is read. */
            event.events = c->out.begin < c->out.end ? EPOLLOUT : EPOLLIN;
            event.data.ptr = c;
            if (c->out.begin < c->out.end || events[i].events & EPOLLOUT) epoll_ctl(poll, EPOLL_CTL_MOD, c->fd, &event);
        }
    }
}
