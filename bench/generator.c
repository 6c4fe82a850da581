/* Sends as a Java 5.5.0 client does (SEND_MESSAGE_V2, JSON header, KEYS, UNIQ_KEY, WAIT and TAGS in the properties) over
   N connections with K requests in flight on each, or pulls what was sent, and prints one JSON object of what it saw.
   One thread, one epoll: it must stay far below one core at 100,000 a second, or it measures itself.

   usage: generator --port P [--host H] [--mode send|pull] [--connections N] [--in-flight K] [--body BYTES]
                    [--topic NAME] [--queues Q] [--seconds T] [--skip S] [--count M] [--tag TAG]
   --skip: seconds at the start that are not counted; --count: stop after so many answers (0: by time alone). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

#define SLOTS 1024                /* most requests in flight on one connection */
#define OPAQUE_BASE 1000000000    /* ten digits always, so a field of the frame has a fixed width */
#define IN_SIZE (1 << 20)
#define BUCKETS 4096

struct connection {
    int fd, free_count, number;
    size_t filled, in_size, out_size, out_at;
    char *in, *out;
    size_t out_room;
    long long pull_offset;
    uint64_t sent_at[SLOTS];
    uint32_t generation[SLOTS];
    int free_slots[SLOTS];
};

static const char *host = "127.0.0.1", *topic = "bench", *tag = "TagA";
static int port, connections = 64, in_flight = 1, queues = 4, pulling;
static size_t body_size = 128;
static double seconds = 10, skip = 0;
static long long limit, total, counted, counted_messages, counted_bytes, refused, answers[4096], other_codes, next_key;
static uint64_t histogram[BUCKETS], worst;
static int counting, ended;
static uint64_t start_ns;

/* One request, and where in it the changing fields stand. */
static char *request;
static size_t request_size, at_opaque, at_queue, at_born, at_unique, at_key;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void digits(char *to, int width, unsigned long long value) {
    for (int i = width - 1; i >= 0; i--, value /= 10) to[i] = (char)('0' + value % 10);
}

static size_t found(const char *mark) {
    char *at = memmem(request, request_size, mark, strlen(mark));
    if (at == NULL) fail(mark);
    return (size_t)(at - request);
}

/* Control characters of the properties are written \u0001 and \u0002, as Java's JSON does. */
static void prepare_send(void) {
    request = malloc(4096 + body_size);
    int size = sprintf(request + 8,
        "{\"code\":310,\"extFields\":{\"a\":\"bench_producer\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"%d\",\"e\":\"Q\","
        "\"f\":\"0\",\"g\":\"BBBBBBBBBBBBB\",\"h\":\"0\",\"i\":\"KEYS\\u0001KKKKKKKKKKKK\\u0002UNIQ_KEY\\u0001"
        "7F0000010000000000000000UUUUUUUU\\u0002WAIT\\u0001true\\u0002TAGS\\u0001%s\\u0002\",\"j\":\"0\",\"k\":\"false\","
        "\"m\":\"false\",\"n\":\"broker-a\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":OOOOOOOOOO,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}", topic, queues, tag);
    put_u32(request, (uint32_t)((size_t)size + 4 + body_size));
    put_u32(request + 4, (uint32_t)size);
    request_size = (size_t)size + 8 + body_size;
    for (size_t i = 0; i < body_size; i++) request[8 + size + i] = (char)('a' + i % 26);
    at_opaque = found("OOOOOOOOOO");
    at_queue = found("\"e\":\"Q") + 5;
    at_born = found("BBBBBBBBBBBBB");
    at_unique = found("UUUUUUUU");
    at_key = found("KKKKKKKKKKKK");
    /* Two runs must not repeat each other's unique keys. */
    char stamp[17];
    sprintf(stamp, "%016llX", (unsigned long long)time(NULL) << 16 | (unsigned long long)getpid());
    memcpy(request + at_unique - 16, stamp, 16);
}

static void write_send(struct connection *c, uint32_t opaque, long long born_ms) {
    char *to = c->out + c->out_size;
    memcpy(to, request, request_size);
    digits(to + at_opaque, 10, opaque);
    to[at_queue] = (char)('0' + next_key % queues);
    digits(to + at_born, 13, (unsigned long long)born_ms);
    digits(to + at_key, 12, (unsigned long long)next_key);
    static const char hex[] = "0123456789ABCDEF";
    for (int i = 0; i < 8; i++) to[at_unique + i] = hex[(next_key >> (28 - 4 * i)) & 15];
    next_key++;
    c->out_size += request_size;
}

static void write_pull(struct connection *c, uint32_t opaque) {
    char *to = c->out + c->out_size;
    int size = sprintf(to + 8,
        "{\"code\":11,\"extFields\":{\"consumerGroup\":\"bench_consumer\",\"topic\":\"%s\",\"queueId\":\"%d\","
        "\"queueOffset\":\"%lld\",\"maxMsgNums\":\"32\",\"sysFlag\":\"4\",\"commitOffset\":\"0\","
        "\"suspendTimeoutMillis\":\"0\",\"subscription\":\"*\",\"subVersion\":\"0\",\"expressionType\":\"TAG\"},\"flag\":0,"
        "\"language\":\"JAVA\",\"opaque\":%u,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
        topic, c->number % queues, c->pull_offset, opaque);
    put_u32(to, (uint32_t)size + 4);
    put_u32(to + 4, (uint32_t)size);
    c->out_size += (size_t)size + 8;
}

static void flush(struct connection *c) {
    while (c->out_at < c->out_size) {
        ssize_t done = write(c->fd, c->out + c->out_at, c->out_size - c->out_at);
        if (done < 0 && errno == EAGAIN) return; /* EPOLLOUT calls again */
        if (done < 0) fail("write");
        c->out_at += (size_t)done;
    }
    c->out_at = c->out_size = 0;
}

/* Puts a request in every free slot. */
static void fill(struct connection *c, uint64_t now) {
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    long long born = (long long)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
    while (c->free_count > 0 && !ended) {
        int slot = c->free_slots[--c->free_count];
        c->generation[slot] = (c->generation[slot] + 1) % 1000000;
        c->sent_at[slot] = now;
        uint32_t opaque = OPAQUE_BASE + c->generation[slot] * SLOTS + (uint32_t)slot;
        if (pulling) write_pull(c, opaque);
        else write_send(c, opaque, born);
    }
    flush(c);
}

/* Buckets of 1/64 of a power of two: within 1.6 % of the true value. */
static int bucket(uint64_t us) {
    if (us < 64) return (int)us;
    int power = 63 - __builtin_clzll(us);
    int b = (power - 5) * 64 + (int)(us >> (power - 6)) - 64;
    return b < BUCKETS ? b : BUCKETS - 1;
}

static uint64_t bucket_value(int b) {
    if (b < 64) return (uint64_t)b;
    return (uint64_t)(b % 64 + 64) << (b / 64 - 1);
}

static uint64_t percentile(double share) {
    uint64_t sum = 0, wanted = (uint64_t)((double)counted * share);
    for (int b = 0; b < BUCKETS; b++) {
        sum += histogram[b];
        if (sum > wanted) return bucket_value(b);
    }
    return worst;
}

static void answered(struct connection *c, const char *frame, size_t length, uint64_t now) {
    size_t header = get_u32(frame + 4) & 0xffffff;
    long long code = json_number(frame + 8, header, "\"code\":", -1);
    long long opaque = json_number(frame + 8, header, "\"opaque\":", -1) - OPAQUE_BASE;
    int slot = (int)(opaque & (SLOTS - 1));
    if (opaque < 0 || (uint32_t)(opaque / SLOTS) != c->generation[slot] || c->sent_at[slot] == 0) {
        fprintf(stderr, "an answer to no request: opaque %lld\n", opaque + OPAQUE_BASE);
        exit(1);
    }
    if (code >= 0 && code < 4096) answers[code]++;
    else other_codes++;
    long long messages = 1;
    if (pulling) {
        messages = 0;
        const char *body = frame + 8 + header;
        size_t rest = length - 4 - header;
        while (code == 0 && rest >= 4 && get_u32(body) >= 4 && get_u32(body) <= rest) {
            messages++;
            rest -= get_u32(body);
            body += get_u32(body);
        }
        long long next = json_number(frame + 8, header, "\"nextBeginOffset\":", 0);
        c->pull_offset = code == 0 ? next : 0; /* at the end, from the start again */
        if (code == 19 || code == 20 || code == 21) code = 0;
    }
    if (code != 0) refused++;
    if (counting && code == 0) {
        uint64_t us = (now - c->sent_at[slot]) / 1000;
        histogram[bucket(us)]++;
        if (us > worst) worst = us;
        counted++;
        counted_messages += messages;
        counted_bytes += (long long)(pulling ? length + 4 : body_size);
    }
    c->sent_at[slot] = 0;
    c->free_slots[c->free_count++] = slot;
    if (++total == limit) ended = 1;
}

/* One read and what it brought; 0 when the socket is drained (the events are edge triggered). */
static int serve(struct connection *c) {
    size_t room = c->in_size - c->filled;
    ssize_t got = read(c->fd, c->in + c->filled, room);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) {
        fprintf(stderr, "the server closed the connection\n");
        exit(1);
    }
    uint64_t now = now_ns();
    c->filled += (size_t)got;
    size_t at = 0;
    while (c->filled - at >= 8) {
        size_t length = get_u32(c->in + at);
        if (length + 4 > c->in_size) {
            fprintf(stderr, "an answer of %zu bytes\n", length);
            exit(1);
        }
        if (c->filled - at < length + 4) break;
        answered(c, c->in + at, length, now);
        at += length + 4;
    }
    memmove(c->in, c->in + at, c->filled - at);
    c->filled -= at;
    fill(c, now);
    return (size_t)got == room;
}

static struct connection *connected(int number) {
    struct connection *c = calloc(1, sizeof *c);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1;
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) fail("--host");
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0) fail("fcntl");
    c->number = number;
    c->in_size = IN_SIZE;
    c->in = malloc(c->in_size);
    c->out_room = (size_t)in_flight * (request_size > 1024 ? request_size : 1024);
    c->out = malloc(c->out_room);
    for (int slot = 0; slot < in_flight; slot++) c->free_slots[c->free_count++] = slot;
    return c;
}

static void arguments(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!strcmp(name, "--host")) host = value;
        else if (!strcmp(name, "--port")) port = atoi(value);
        else if (!strcmp(name, "--mode")) pulling = !strcmp(value, "pull");
        else if (!strcmp(name, "--connections")) connections = atoi(value);
        else if (!strcmp(name, "--in-flight")) in_flight = atoi(value);
        else if (!strcmp(name, "--body")) body_size = (size_t)atol(value);
        else if (!strcmp(name, "--topic")) topic = value;
        else if (!strcmp(name, "--tag")) tag = value;
        else if (!strcmp(name, "--queues")) queues = atoi(value);
        else if (!strcmp(name, "--seconds")) seconds = atof(value);
        else if (!strcmp(name, "--skip")) skip = atof(value);
        else if (!strcmp(name, "--count")) limit = atoll(value);
        else { fprintf(stderr, "no option %s\n", name); exit(2); }
    }
    if (port <= 0 || in_flight < 1 || in_flight > SLOTS || queues < 1 || queues > 10 || connections < 1) {
        fprintf(stderr, "--port is needed; --in-flight is 1 to %d, --queues 1 to 10\n", SLOTS);
        exit(2);
    }
    if (pulling) in_flight = 1; /* the next offset is known from the last answer */
}

static void report(double elapsed) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    double cpu = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
    printf("{\"count\":%lld,\"seconds\":%.3f,\"rate\":%.1f,\"bytes_per_second\":%.0f,\"p50_us\":%llu,\"p99_us\":%llu,"
           "\"max_us\":%llu,\"answered\":%lld,\"refused\":%lld,\"cpu_seconds\":%.2f,\"codes\":{",
        counted_messages, elapsed, (double)counted_messages / elapsed, (double)counted_bytes / elapsed,
        (unsigned long long)percentile(0.5), (unsigned long long)percentile(0.99), (unsigned long long)worst, total,
        refused, cpu);
    const char *comma = "";
    for (int code = 0; code < 4096; code++)
        if (answers[code]) printf("%s\"%d\":%lld", comma, code, answers[code]), comma = ",";
    if (other_codes) printf("%s\"other\":%lld", comma, other_codes);
    printf("}}\n");
}

int main(int argc, char **argv) {
    arguments(argc, argv);
    prepare_send();
    int poll = epoll_create1(0);
    struct connection **all = calloc((size_t)connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        all[i] = connected(i);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = all[i]};
        epoll_ctl(poll, EPOLL_CTL_ADD, all[i]->fd, &event);
    }
    start_ns = now_ns();
    uint64_t count_from = start_ns + (uint64_t)(skip * 1e9), end = count_from + (uint64_t)(seconds * 1e9), now = start_ns;
    counting = skip == 0;
    for (int i = 0; i < connections; i++) fill(all[i], start_ns);
    struct epoll_event events[1024];
    while (now < end && !ended) {
        int n = epoll_wait(poll, events, 1024, 100);
        now = now_ns();
        if (!counting && now >= count_from) counting = 1, count_from = now;
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) flush(c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                while (serve(c)) continue;
        }
    }
    report((double)(now - count_from) / 1e9);
    return refused > 0 && counted == 0;
}
