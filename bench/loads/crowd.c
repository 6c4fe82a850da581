/* Many connections to a broker that do little: they register with heartbeats, hold pulls, and are woken by a message.

   usage: crowd --port P [--connections N] [--groups G] [--topic NAME]
   It takes a command a line from standard input and answers each with a line that is a JSON object:

   connect               opens all connections
   prepare               stores one message, so that the topic is there
   heartbeat             one heartbeat of a consumer on each, and its answer
   hold                  a held pull at the end of queue 0 on each
   rest SECONDS          reads what comes, and counts it
   wake                  sends one message to queue 0: when the first and the last held pull are answered
   latency RATE SECONDS  the first connection holds a pull, a message is sent so often a second: from send to its arrival */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/epoll.h>

#include "requests.h"

#define HELD_MS 600000
#define MOST_SECONDS 120
#define HEARTBEAT "{\"clientID\":\"127.0.0.1@%d#%d\",\"consumerDataSet\":[{\"consumeFromWhere\":\"CONSUME_FROM_LAST_OFFSET\"," \
    "\"consumeType\":\"CONSUME_PASSIVELY\",\"groupName\":\"crowd_group_%d\",\"messageModel\":\"CLUSTERING\"," \
    "\"subscriptionDataSet\":[{\"classFilterMode\":false,\"codeSet\":[],\"expressionType\":\"TAG\",\"subString\":\"*\"," \
    "\"subVersion\":1,\"tagsSet\":[],\"topic\":\"%s\"}],\"unitMode\":false}],\"producerDataSet\":[]}"

struct member {
    int fd;
    struct bytes in, out;
};

static int port, count = 5000, groups = 50, poll_fd;
static struct member *members, sender;
static struct send_template sends = {.of = {.topic = "crowd", .tag = "TagA", .queues = 1, .body_size = 128}};
static struct pull_options pulls = {.topic = "crowd", .group = "crowd_puller", .subscription = "*", .expression_type = "TAG", .count = 32, .hold_ms = HELD_MS};
static long long answers, notifications, refused, stored, next_offset;
static uint64_t first_at, last_at;
static uint32_t opaque = OPAQUE_BASE;

static void open_member(struct member *m) {
    m->fd = connect_to("127.0.0.1", port);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = m};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, m->fd, &event);
}

static void send_out(struct member *m) {
    if (!write_out(m->fd, &m->out)) fail("write");
}

/* What came on one connection: answers of what was asked, and requests of the broker, which nobody answers. */
static void take(struct member *m) {
    for (;;) {
        char *to = want_room(&m->in, 2048);
        ssize_t got = read(m->fd, to, m->in.room - m->in.end);
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) refuse("the server closed a connection");
        m->in.end += (size_t)got;
        while (m->in.end - m->in.begin >= 8) {
            char *frame = m->in.data + m->in.begin;
            size_t length = get_u32(frame), header = get_u32(frame + 4) & 0xffffff;
            if (m->in.end - m->in.begin < length + 4) break;
            m->in.begin += length + 4;
            if (!(json_number(frame + 8, header, "\"flag\":", 0) & 1)) {
                notifications++;
                continue;
            }
            long long code = json_number(frame + 8, header, "\"code\":", -1);
            if (m == &sender) {
                if (code == 0) stored++;
                continue;
            }
            if (code != 0 && code != 21) refused++;
            next_offset = json_number(frame + 8, header, "\"nextBeginOffset\":", next_offset);
            last_at = now_ns();
            if (answers++ == 0) first_at = last_at;
        }
    }
}

/* Reads until so many answers are there or the time is over. */
static void serve(long long wanted, uint64_t until) {
    struct epoll_event events[1024];
    for (uint64_t now = now_ns(); answers < wanted && now < until; now = now_ns()) {
        int n = epoll_wait(poll_fd, events, 1024, (int)((until - now) / 1000000) + 1);
        for (int i = 0; i < n; i++) {
            struct member *m = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) send_out(m);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) take(m);
        }
    }
}

static uint64_t start_over(double seconds) {
    answers = notifications = refused = 0;
    return now_ns() + (uint64_t)(seconds * 1e9);
}

static void connect_all(void) {
    uint64_t began = now_ns();
    for (int i = 0; i < count; i++) open_member(&members[i]);
    open_member(&sender);
    printf("{\"seconds\":%.4f}\n", (double)(now_ns() - began) / 1e9);
}

static void heartbeats(void) {
    uint64_t began = now_ns(), until = start_over(MOST_SECONDS);
    for (int i = 0; i < count; i++) {
        struct member *m = &members[i];
        char *to = want_room(&m->out, 4096);
        int size = sprintf(to + 8, "{\"code\":34,\"extFields\":{}," END_FRAME, opaque++);
        int body = sprintf(to + 8 + size, HEARTBEAT, (int)getpid(), i, i % groups, pulls.topic);
        put_u32(to, (uint32_t)(size + body) + 4);
        put_u32(to + 4, (uint32_t)size);
        m->out.end += (size_t)(size + body) + 8;
        send_out(m);
    }
    serve(count, until);
    printf("{\"seconds\":%.4f,\"answers\":%lld,\"refused\":%lld,\"notifications\":%lld}\n",
        (double)(now_ns() - began) / 1e9, answers, refused, notifications);
}

/* A pull after the end is answered at once with where the end is. */
static void find_end(void) {
    struct pull_options probe = pulls;
    probe.hold_ms = 0;
    uint64_t until = start_over(MOST_SECONDS);
    write_pull(&probe, &members[0].out, 0, 1ll << 40, opaque++);
    send_out(&members[0]);
    serve(1, until);
    if (answers != 1) refuse("a pull was not answered");
}

static void send_one(void) {
    write_send(&sends, &sender.out, opaque++, wall_ms());
    send_out(&sender);
}

static void prepare(void) {
    uint64_t until = now_ns() + MOST_SECONDS * 1000000000ull;
    stored = next_offset = 0;
    send_one();
    while (now_ns() < until && next_offset == 0) {
        start_over(0);
        serve(1, now_ns() + 20000000);
        if (stored) find_end();
    }
    if (next_offset == 0) refuse("the first message was not stored");
    printf("{\"offset\":%lld}\n", next_offset);
}

static void hold(void) {
    find_end();
    long long end = next_offset;
    start_over(0);
    for (int i = 0; i < count; i++) {
        write_pull(&pulls, &members[i].out, 0, end, opaque++);
        send_out(&members[i]);
    }
    printf("{\"held\":%d,\"offset\":%lld}\n", count, end);
}

static void rest(double seconds) {
    serve(1ll << 60, start_over(seconds));
    printf("{\"answers\":%lld,\"notifications\":%lld}\n", answers, notifications);
}

static void wake(void) {
    uint64_t until = start_over(MOST_SECONDS), began = now_ns();
    send_one();
    serve(count, until);
    printf("{\"woken\":%lld,\"refused\":%lld,\"first_ms\":%.3f,\"last_ms\":%.3f}\n", answers, refused,
        (double)(first_at - began) / 1e6, (double)(last_at - began) / 1e6);
}

static void latency(double rate, double seconds) {
    find_end();
    write_pull(&pulls, &members[0].out, 0, next_offset, opaque++);
    send_out(&members[0]);
    uint64_t began = now_ns(), at = began;
    for (int i = 1; i <= (int)(rate * seconds); i++) {
        at = began + (uint64_t)(i / rate * 1e9);
        answers = 0;
        serve(1, at);
        if (answers) refuse("a pull was answered without a message");
        uint64_t sent = now_ns();
        send_one();
        serve(1, sent + MOST_SECONDS * 1000000000ull);
        if (!answers || refused) refuse("a message did not reach the held pull");
        count_us((last_at - sent) / 1000);
        write_pull(&pulls, &members[0].out, 0, next_offset, opaque++);
        send_out(&members[0]);
    }
    printf("{\"count\":%llu,\"p50_us\":%llu,\"p99_us\":%llu,\"max_us\":%llu}\n", (unsigned long long)histogram_count,
        percentile_us(0.5), percentile_us(0.99), (unsigned long long)worst_us);
}

/* Waits for a command, and reads what comes meanwhile: a connection that is not read would hold the broker up. */
static int command(char *line, int room) {
    struct pollfd both[2] = {{.fd = 0, .events = POLLIN}, {.fd = poll_fd, .events = POLLIN}};
    for (;;) {
        poll(both, 2, -1);
        if (both[1].revents) serve(1ll << 60, now_ns() + 1);
        if (both[0].revents) return fgets(line, room, stdin) != NULL;
    }
}

int main(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--port")) port = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--connections")) count = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--groups")) groups = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--topic")) sends.of.topic = pulls.topic = argv[i + 1];
    }
    if (port <= 0 || count < 1 || groups < 1) refuse("--port is needed");
    prepare_send(&sends);
    setvbuf(stdin, NULL, _IONBF, 0);
    poll_fd = epoll_create1(0);
    members = calloc((size_t)count, sizeof *members);
    char line[256];
    double one, two;
    while (command(line, sizeof line)) {
        if (!strncmp(line, "connect", 7)) connect_all();
        else if (!strncmp(line, "prepare", 7)) prepare();
        else if (!strncmp(line, "heartbeat", 9)) heartbeats();
        else if (!strncmp(line, "hold", 4)) hold();
        else if (sscanf(line, "rest %lf", &one) == 1) rest(one);
        else if (!strncmp(line, "wake", 4)) wake();
        else if (sscanf(line, "latency %lf %lf", &one, &two) == 2) latency(one, two);
        else refuse("no such command");
        fflush(stdout);
    }
    return 0;
}
