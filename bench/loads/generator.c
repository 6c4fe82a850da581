/* Load on a broker over N connections with K requests in flight on each, as Java 5.5.0 clients make it, and one JSON
   object of what was answered. One thread, one epoll: it must stay far below one core, or it measures itself.

   usage: generator --port P [--mode send|pull|follow|transaction] [--host H] [--connections N] [--in-flight K]
                    [--seconds T] [--skip S] [--count M] [--topic NAME] [--queues Q]
   --skip: seconds at the start that are not counted; --count: stop after so many answers (0: by time alone).

   send          SEND_MESSAGE_V2: --body BYTES, --tag TAG, --tags N (t0 to tN-1 in turn, and the same digit as property n),
                 --batch M (320, M messages each), --delay LEVEL, --deliver-at MS (wall clock), --topics N (NAME-00000
                 to N - 1 in turn, all queues of one after the other)
   transaction   half message and its commit, one after the other; an answer counts when the commit is answered
   pull          what is stored, and from the start again at the end: --pull MESSAGES, --subscription TEXT,
                 --expression TAG|SQL92, --group NAME, --expect TAG and --body-check BYTES look into every message
   follow        held pulls of all queues, one connection each, until --count messages are there; tells when, after
                 --due MS (wall clock), the first, the half of them and the last were */
#define _GNU_SOURCE
#include <sys/epoll.h>
#include <sys/resource.h>

#include "requests.h"

#define SLOTS 1024 /* most requests in flight on one connection */
#define READ_SIZE (1 << 20)
#define HELD_MS 15000

enum mode { SEND, PULL, FOLLOW, TRANSACTION };

struct connection {
    int fd, free_count, number;
    struct bytes in, out;
    long long pull_offset;
    uint64_t sent_at[SLOTS];
    uint32_t generation[SLOTS];
    int free_slots[SLOTS];
    char committing[SLOTS];
};

static const char *host = "127.0.0.1", *expect;
static int port, connections = 64, in_flight = 1;
static enum mode mode = SEND;
static double seconds = 10, skip = 0;
static long long limit, due_ms, body_check = -1;
static struct send_template sends = {.of = {.topic = "bench", .tag = "TagA", .queues = 4, .body_size = 128}};
static struct pull_options pulls = {.topic = "bench", .group = "bench_consumer", .subscription = "*", .expression_type = "TAG", .count = 32};

static long long total, all_messages, counted, counted_messages, counted_bytes, scanned, refused, wrong, answers[4096], other_codes;
static long long first_ms = -1, half_ms = -1, last_ms = -1;
static int counting, ended;

static uint32_t opaque_of(const struct connection *c, int slot) {
    return OPAQUE_BASE + c->generation[slot] * SLOTS + (uint32_t)slot;
}

/* Puts a request in every free slot. */
static void fill(struct connection *c, uint64_t now) {
    long long born = wall_ms();
    while (c->free_count > 0 && !ended) {
        int slot = c->free_slots[--c->free_count];
        c->generation[slot] = (c->generation[slot] + 1) % 1000000;
        c->sent_at[slot] = now;
        if (mode == PULL || mode == FOLLOW)
            write_pull(&pulls, &c->out, c->number % sends.of.queues, c->pull_offset, opaque_of(c, slot));
        else write_send(&sends, &c->out, opaque_of(c, slot), born);
    }
    if (!write_out(c->fd, &c->out)) fail("write");
}

/* Looks into one stored message: whether it is of the queue and place that were asked for, and has the body and tag. */
static int is_right(const struct connection *c, const char *record, size_t size, long long *after) {
    if (size < 92 || (get_u32(record + 4) & 0xffffff00) != 0xdaa32000) return 0;
    long long offset = (long long)get_u32(record + 20) << 32 | get_u32(record + 24);
    if ((int)get_u32(record + 12) != c->number % sends.of.queues || offset < *after) return 0;
    *after = offset + 1;
    if (body_check >= 0 && get_u32(record + 84) != (uint32_t)body_check) return 0;
    if (expect == NULL) return 1;
    char mark[64];
    int length = snprintf(mark, sizeof mark, "TAGS\x01%s\x02", expect);
    return memmem(record, size, mark, (size_t)length) != NULL;
}

/* The messages in the answer to a pull; moves the connection's offset. */
static long long pulled(struct connection *c, long long code, const char *frame, size_t length, size_t header) {
    const char *body = frame + 8 + header;
    size_t rest = length - 4 - header;
    long long messages = 0, next = json_number(frame + 8, header, "\"nextBeginOffset\":", 0), after = c->pull_offset;
    while (code == 0 && rest >= 4 && get_u32(body) >= 4 && get_u32(body) <= rest) {
        if ((expect || body_check >= 0) && !is_right(c, body, get_u32(body), &after)) wrong++;
        messages++;
        rest -= get_u32(body);
        body += get_u32(body);
    }
    if (rest > 0 || (code == 0 && messages == 0)) refuse("an answer to a pull whose body does not add up");
    if (code == 0 || code == 20) scanned += counting ? next - c->pull_offset : 0, c->pull_offset = next;
    else if (mode == PULL) c->pull_offset = 0; /* at the end, from the start again */
    else if (code == 21) c->pull_offset = next;
    if (mode == FOLLOW && messages > 0) {
        long long at = wall_ms() - due_ms;
        if (first_ms < 0) first_ms = at;
        if (half_ms < 0 && all_messages + messages >= limit / 2) half_ms = at;
        last_ms = at;
    }
    return messages;
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
    if (mode == TRANSACTION && code == 0 && !c->committing[slot]) {
        c->committing[slot] = 1;
        write_commit(sends.of.topic, &c->out, frame + 8, header, opaque_of(c, slot));
        return;
    }
    c->committing[slot] = 0;
    long long messages = sends.of.batch ? sends.of.batch : 1;
    if (mode == PULL || mode == FOLLOW) {
        messages = pulled(c, code, frame, length, header);
        if (code == 19 || code == 20 || code == 21) code = 0;
    }
    if (code != 0) refused++;
    else {
        all_messages += messages;
        if (counting) {
            count_us((now - c->sent_at[slot]) / 1000);
            counted++;
            counted_messages += messages;
            counted_bytes += (long long)(mode == PULL || mode == FOLLOW ? length + 4 : sends.of.body_size * (size_t)messages);
        }
    }
    c->sent_at[slot] = 0;
    c->free_slots[c->free_count++] = slot;
    total++;
    if (limit && (mode == FOLLOW ? all_messages : total) >= limit) ended = 1;
}

/* One read and what it brought; 0 when the socket is drained (the events are edge triggered). */
static int serve(struct connection *c) {
    struct bytes *in = &c->in;
    char *to = want_room(in, READ_SIZE);
    size_t room = in->room - in->end;
    ssize_t got = read(c->fd, to, room);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) refuse("the server closed the connection");
    uint64_t now = now_ns();
    in->end += (size_t)got;
    while (in->end - in->begin >= 8) {
        size_t length = get_u32(in->data + in->begin);
        if (length > (64u << 20)) refuse("an answer of more than 64 MB");
        if (in->end - in->begin < length + 4) break;
        answered(c, in->data + in->begin, length, now);
        in->begin += length + 4;
    }
    fill(c, now);
    return (size_t)got == room;
}

static struct connection *connected(int number) {
    struct connection *c = calloc(1, sizeof *c);
    c->fd = connect_to(host, port);
    c->number = number;
    for (int slot = 0; slot < in_flight; slot++) c->free_slots[c->free_count++] = slot;
    return c;
}

static enum mode mode_of(const char *name) {
    static const char *names[] = {"send", "pull", "follow", "transaction"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(name, names[i])) return (enum mode)i;
    fprintf(stderr, "no mode %s\n", name);
    exit(2);
}

static void arguments(int argc, char **argv) {
    struct send_options *of = &sends.of;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!strcmp(name, "--host")) host = value;
        else if (!strcmp(name, "--port")) port = atoi(value);
        else if (!strcmp(name, "--mode")) mode = mode_of(value);
        else if (!strcmp(name, "--connections")) connections = atoi(value);
        else if (!strcmp(name, "--in-flight")) in_flight = atoi(value);
        else if (!strcmp(name, "--body")) of->body_size = (size_t)atol(value);
        else if (!strcmp(name, "--topic")) of->topic = pulls.topic = value;
        else if (!strcmp(name, "--tag")) of->tag = value;
        else if (!strcmp(name, "--tags")) of->tags = atoi(value);
        else if (!strcmp(name, "--topics")) of->topics = atoi(value);
        else if (!strcmp(name, "--batch")) of->batch = atoi(value);
        else if (!strcmp(name, "--delay")) of->delay_level = atoi(value);
        else if (!strcmp(name, "--deliver-at")) of->deliver_at_ms = atoll(value);
        else if (!strcmp(name, "--queues")) of->queues = atoi(value);
        else if (!strcmp(name, "--pull")) pulls.count = atoi(value);
        else if (!strcmp(name, "--group")) pulls.group = value;
        else if (!strcmp(name, "--subscription")) pulls.subscription = value;
        else if (!strcmp(name, "--expression")) pulls.expression_type = value;
        else if (!strcmp(name, "--expect")) expect = value;
        else if (!strcmp(name, "--body-check")) body_check = atoll(value);
        else if (!strcmp(name, "--due")) due_ms = atoll(value);
        else if (!strcmp(name, "--seconds")) seconds = atof(value);
        else if (!strcmp(name, "--skip")) skip = atof(value);
        else if (!strcmp(name, "--count")) limit = atoll(value);
        else { fprintf(stderr, "no option %s\n", name); exit(2); }
    }
    if (port <= 0 || in_flight < 1 || in_flight > SLOTS || of->queues < 1 || of->queues > 10 || connections < 1 || of->tags > 10) {
        fprintf(stderr, "--port is needed; --in-flight is 1 to %d, --queues 1 to 10, --tags at most 10\n", SLOTS);
        exit(2);
    }
    of->transaction = mode == TRANSACTION;
    if (mode == PULL || mode == FOLLOW) in_flight = 1; /* the next offset is known from the last answer */
    if (mode == FOLLOW) pulls.hold_ms = HELD_MS, connections = of->queues;
}

static void report(double elapsed) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    double cpu = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
    printf("{\"count\":%lld,\"all_count\":%lld,\"seconds\":%.6f,\"rate\":%.1f,\"bytes_per_second\":%.0f,\"p50_us\":%llu,"
           "\"p99_us\":%llu,\"max_us\":%llu,\"answered\":%lld,\"scanned\":%lld,\"wrong\":%lld,\"refused\":%lld,"
           "\"cpu_seconds\":%.2f,\"first_ms\":%lld,\"half_ms\":%lld,\"last_ms\":%lld,\"codes\":{",
        counted_messages, all_messages, elapsed, (double)counted_messages / elapsed, (double)counted_bytes / elapsed,
        percentile_us(0.5), percentile_us(0.99), (unsigned long long)worst_us, total, scanned, wrong, refused, cpu,
        first_ms, half_ms, last_ms);
    const char *comma = "";
    for (int code = 0; code < 4096; code++)
        if (answers[code]) printf("%s\"%d\":%lld", comma, code, answers[code]), comma = ",";
    if (other_codes) printf("%s\"other\":%lld", comma, other_codes);
    printf("}}\n");
}

int main(int argc, char **argv) {
    arguments(argc, argv);
    prepare_send(&sends);
    int poll = epoll_create1(0);
    struct connection **all = calloc((size_t)connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        all[i] = connected(i);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = all[i]};
        epoll_ctl(poll, EPOLL_CTL_ADD, all[i]->fd, &event);
    }
    uint64_t now = now_ns(), count_from = now + (uint64_t)(skip * 1e9), end = count_from + (uint64_t)(seconds * 1e9);
    counting = skip == 0;
    for (int i = 0; i < connections; i++) fill(all[i], now);
    struct epoll_event events[1024];
    while (now < end && !ended) {
        int n = epoll_wait(poll, events, 1024, 100);
        now = now_ns();
        if (!counting && now >= count_from) counting = 1, count_from = now;
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if ((events[i].events & EPOLLOUT) && !write_out(c->fd, &c->out)) fail("write");
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                while (serve(c)) continue;
        }
    }
    report((double)(now - count_from) / 1e9);
    return refused > 0 && counted == 0;
}
