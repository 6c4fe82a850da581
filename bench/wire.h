/* The little of RocketMQ's remoting protocol that the generator and the null server share.
   A frame is length(4) type(1) header_length(3) header body, big-endian; headers here are JSON. */
#ifndef BOLIDE_BENCH_WIRE_H
#define BOLIDE_BENCH_WIRE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

#endif
