/* Answers every SEND_MESSAGE_V2 with SEND_OK and stores nothing: the ceiling of the generator and the network.

   usage: null_server PORT        (0: any; prints "ready PORT") */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

#define BUFFER (1 << 20)

struct connection {
    int fd;
    size_t filled;
    char in[BUFFER];
};

static char out[BUFFER];

static size_t answer(char *to, long long opaque) {
    int size = sprintf(to + 8,
        "{\"code\":0,\"extFields\":{\"queueId\":\"0\",\"TRACE_ON\":\"true\",\"MSG_REGION\":\"DefaultRegion\","
        "\"msgId\":\"7F00000100002A9F0000000000000000\",\"queueOffset\":\"0\"},\"flag\":1,\"language\":\"JAVA\","
        "\"opaque\":%lld,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}", opaque);
    put_u32(to, (uint32_t)size + 4);
    put_u32(to + 4, (uint32_t)size);
    return (size_t)size + 8;
}

/* Returns 0 when the peer is gone. */
static int serve(struct connection *c) {
    ssize_t got = read(c->fd, c->in + c->filled, BUFFER - c->filled);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    c->filled += (size_t)got;
    size_t at = 0, ready = 0;
    while (c->filled - at >= 8) {
        size_t length = get_u32(c->in + at);
        if (length + 4 > BUFFER) return 0;
        if (c->filled - at < length + 4) break;
        size_t header = get_u32(c->in + at + 4) & 0xffffff;
        ready += answer(out + ready, json_number(c->in + at + 8, header, "\"opaque\":", -1));
        at += length + 4;
    }
    memmove(c->in, c->in + at, c->filled - at);
    c->filled -= at;
    /* A closed loop never has more in flight than the socket buffers hold, so a short write means the peer is gone. */
    return ready == 0 || write(c->fd, out, ready) == (ssize_t)ready;
}

int main(int argc, char **argv) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? (uint16_t)atoi(argv[1]) : 0)};
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
                c = malloc(sizeof *c);
                c->fd = fd;
                c->filled = 0;
                event.data.ptr = c;
                epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
            } else if (!serve(c)) {
                close(c->fd);
                free(c);
            }
        }
    }
}
