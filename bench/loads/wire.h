/* The little of RocketMQ's remoting protocol that the programs of the bench share.
   A frame is length(4) type(1) header_length(3) header body, big-endian; headers here are JSON. */
#ifndef BOLIDE_BENCH_WIRE_H
#define BOLIDE_BENCH_WIRE_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static inline uint32_t get_u32(const char *p) {
    const unsigned char *u = (const unsigned char *)p;
    return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

static inline void put_u32(char *p, uint32_t v) {
    p[0] = (char)(v >> 24);
    p[1] = (char)(v >> 16);
    p[2] = (char)(v >> 8);
    p[3] = (char)v;
}

/* The number after a name such as "\"opaque\":" in a JSON header; `missing` if the name is not there. */
static inline long long json_number(const char *header, size_t size, const char *name, long long missing) {
    size_t length = strlen(name);
    const char *at = memmem(header, size, name, length);
    if (at == NULL) return missing;
    at += length;
    const char *end = header + size;
    while (at < end && (*at == '"' || *at == ' ')) at++;
    long long value = 0;
    int negative = at < end && *at == '-';
    if (negative) at++;
    for (; at < end && *at >= '0' && *at <= '9'; at++) value = value * 10 + (*at - '0');
    return negative ? -value : value;
}

static inline void fail(const char *what) {
    perror(what);
    exit(1);
}

static inline void refuse(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline long long wall_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline void digits(char *to, int width, unsigned long long value) {
    for (int i = width - 1; i >= 0; i--, value /= 10) to[i] = (char)('0' + value % 10);
}

/* Room that grows for bytes to send or bytes received; what was taken away leaves room in front. */
struct bytes {
    char *data;
    size_t begin, end, room;
};

static inline char *want_room(struct bytes *b, size_t more) {
    if (b->begin == b->end) b->begin = b->end = 0;
    if (b->room - b->end < more && b->begin > 0) {
        memmove(b->data, b->data + b->begin, b->end - b->begin);
        b->end -= b->begin;
        b->begin = 0;
    }
    if (b->room - b->end < more) {
        b->room = (b->end + more) * 2;
        b->data = realloc(b->data, b->room);
        if (b->data == NULL) fail("realloc");
    }
    return b->data + b->end;
}

/* Writes what can be written; the rest goes when epoll tells that there is room. 0 when the peer is gone. */
static inline int write_out(int fd, struct bytes *out) {
    while (out->begin < out->end) {
        ssize_t done = write(fd, out->data + out->begin, out->end - out->begin);
        if (done < 0 && errno == EAGAIN) return 1;
        if (done < 0) return 0;
        out->begin += (size_t)done;
    }
    return 1;
}

static inline int connect_to(const char *host, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) fail("--host");
    if (fd < 0) fail("socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0) fail("fcntl");
    return fd;
}

/* Latencies in buckets of 1/64 of a power of two: within 1.6 % of the true value. */
#define BUCKETS 4096
static uint64_t histogram[BUCKETS], worst_us, histogram_count;

static inline void count_us(uint64_t us) {
    int power = us < 64 ? 0 : 63 - __builtin_clzll(us);
    int b = us < 64 ? (int)us : (power - 5) * 64 + (int)(us >> (power - 6)) - 64;
    histogram[b < BUCKETS ? b : BUCKETS - 1]++;
    histogram_count++;
    if (us > worst_us) worst_us = us;
}

static inline unsigned long long percentile_us(double share) {
    uint64_t sum = 0, wanted = (uint64_t)((double)histogram_count * share);
    for (int b = 0; b < BUCKETS; b++) {
        sum += histogram[b];
        if (sum > wanted) return b < 64 ? (uint64_t)b : (uint64_t)(b % 64 + 64) << (b / 64 - 1);
    }
    return worst_us;
}

#endif
