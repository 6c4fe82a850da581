/* The requests of the bench, as a Java 5.5.0 client writes them: JSON headers, KEYS, UNIQ_KEY, WAIT and TAGS among the
   properties. A send is a text whose changing fields have a fixed width, so that writing one is a copy and few digits. */
#ifndef BOLIDE_BENCH_REQUESTS_H
#define BOLIDE_BENCH_REQUESTS_H

#include "wire.h"

#define OPAQUE_BASE 1000000000 /* ten digits always, so a field of the frame has a fixed width */
#define END_FRAME "\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}"

struct send_options {
    const char *topic, *tag;
    int queues, topics, tags, delay_level, transaction, batch;
    long long deliver_at_ms;
    size_t body_size;
};

/* One request, and where in it the changing fields stand (0: it has no such field). */
struct send_template {
    struct send_options of;
    char *text;
    size_t size, at_opaque, at_topic, at_queue, at_born, at_unique, at_key, at_tag, at_number, message_size, at_messages;
    long long next_key;
};

static inline size_t place(const char *text, size_t size, const char *mark) {
    char *at = memmem(text, size, mark, strlen(mark));
    return at == NULL ? 0 : (size_t)(at - text);
}

/* Properties; `one` and `two` part name from value and pair from pair: as such, or escaped as Java's JSON does. */
static inline int properties(char *to, const struct send_options *of, const char *one, const char *two, int inner) {
    int size = 0;
    if (of->batch && !inner) return sprintf(to, "WAIT%strue%s", one, two);
    size += sprintf(to + size, "KEYS%sKKKKKKKKKKKK%sUNIQ_KEY%s7F0000010000000000000000UUUUUUUU%s", one, two, one, two);
    size += sprintf(to + size, "WAIT%strue%s", one, two);
    if (of->tags) size += sprintf(to + size, "TAGS%stT%sn%sN%s", one, two, one, two);
    else size += sprintf(to + size, "TAGS%s%s%s", one, of->tag, two);
    if (of->delay_level) size += sprintf(to + size, "DELAY%s%d%s", one, of->delay_level, two);
    if (of->deliver_at_ms) size += sprintf(to + size, "TIMER_DELIVER_MS%s%lld%s", one, of->deliver_at_ms, two);
    if (of->transaction) size += sprintf(to + size, "TRAN_MSG%strue%sPGROUP%sbench_producer%s", one, two, one, two);
    return size;
}

/* A message of a batch: size magic crc flag body_size body properties_size properties. */
static inline size_t inner_message(char *to, const struct send_options *of) {
    memset(to, 0, 20);
    for (size_t i = 0; i < of->body_size; i++) to[20 + i] = (char)('a' + i % 26);
    size_t at = 20 + of->body_size;
    int size = properties(to + at + 2, of, "\x01", "\x02", 1);
    to[at] = (char)(size >> 8);
    to[at + 1] = (char)size;
    put_u32(to, (uint32_t)(at + 2 + (size_t)size));
    put_u32(to + 16, (uint32_t)of->body_size);
    return at + 2 + (size_t)size;
}

static inline void prepare_send(struct send_template *t) {
    const struct send_options *of = &t->of;
    size_t messages = of->batch ? (size_t)of->batch : 1;
    t->text = malloc(4096 + messages * (of->body_size + 1024));
    char props[1024], topic[256];
    snprintf(topic, sizeof topic, "%s%s", of->topic, of->topics ? "-TTTTT" : "");
    props[properties(props, of, "\\u0001", "\\u0002", 0)] = 0;
    int size = sprintf(t->text + 8,
        "{\"code\":%d,\"extFields\":{\"a\":\"bench_producer\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"%d\",\"e\":\"Q\","
        "\"f\":\"%d\",\"g\":\"BBBBBBBBBBBBB\",\"h\":\"0\",\"i\":\"%s\",\"j\":\"0\",\"k\":\"false\",\"m\":\"%s\","
        "\"n\":\"broker-a\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":OOOOOOOOOO,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
        of->batch ? 320 : 310, topic, of->queues, of->transaction ? 4 : 0, props, of->batch ? "true" : "false");
    char *body = t->text + 8 + size;
    if (of->batch) {
        t->at_messages = 8 + (size_t)size;
        t->message_size = inner_message(body, of);
        for (size_t i = 1; i < messages; i++) memcpy(body + i * t->message_size, body, t->message_size);
    } else {
        for (size_t i = 0; i < of->body_size; i++) body[i] = (char)('a' + i % 26);
    }
    size_t body_size = of->batch ? messages * t->message_size : of->body_size;
    t->size = (size_t)size + 8 + body_size;
    put_u32(t->text, (uint32_t)(t->size - 4));
    put_u32(t->text + 4, (uint32_t)size);
    t->at_opaque = place(t->text, t->size, "OOOOOOOOOO");
    t->at_topic = of->topics ? place(t->text, t->size, "-TTTTT") + 1 : 0;
    t->at_queue = place(t->text, t->size, "\"e\":\"Q") + 5;
    t->at_born = place(t->text, t->size, "BBBBBBBBBBBBB");
    /* In a batch these are of its first message, and the distance to the next is its size. */
    t->at_unique = place(t->text, t->size, "UUUUUUUU");
    t->at_key = place(t->text, t->size, "KKKKKKKKKKKK");
    if (of->tags) {
        const char *tag = of->batch ? "TAGS\x01tT" : "TAGS\\u0001tT", *number = of->batch ? "n\x01N" : "\\u0002n\\u0001N";
        t->at_tag = place(t->text, t->size, tag) + strlen(tag) - 1;
        t->at_number = place(t->text, t->size, number) + strlen(number) - 1;
    }
    /* Two runs must not repeat each other's unique keys. */
    char stamp[17];
    sprintf(stamp, "%016llX", (unsigned long long)time(NULL) << 16 | (unsigned long long)getpid());
    for (size_t i = 0; i < messages; i++) memcpy(t->text + t->at_unique - 16 + i * t->message_size, stamp, 16);
}

static inline void write_send(struct send_template *t, struct bytes *out, uint32_t opaque, long long born_ms) {
    static const char hex[] = "0123456789ABCDEF";
    char *to = want_room(out, t->size);
    int messages = t->of.batch ? t->of.batch : 1;
    memcpy(to, t->text, t->size);
    digits(to + t->at_opaque, 10, opaque);
    to[t->at_queue] = (char)('0' + t->next_key / messages % t->of.queues);
    if (t->at_topic) digits(to + t->at_topic, 5, (unsigned long long)(t->next_key / messages / t->of.queues % t->of.topics));
    digits(to + t->at_born, 13, (unsigned long long)born_ms);
    for (int m = 0; m < messages; m++, to += t->message_size) {
        long long key = t->next_key++;
        digits(to + t->at_key, 12, (unsigned long long)key);
        for (int i = 0; i < 8; i++) to[t->at_unique + (size_t)i] = hex[(key >> (28 - 4 * i)) & 15];
        if (t->of.tags) to[t->at_tag] = to[t->at_number] = (char)('0' + key / t->of.queues % t->of.tags);
    }
    out->end += t->size;
}

/* Puts a header that is already written in a frame without a body. */
static inline void frame_header(struct bytes *out, char *to, int size) {
    put_u32(to, (uint32_t)size + 4);
    put_u32(to + 4, (uint32_t)size);
    out->end += (size_t)size + 8;
}

struct pull_options {
    const char *topic, *group, *subscription, *expression_type;
    int count, hold_ms;
};

static inline void write_pull(const struct pull_options *of, struct bytes *out, int queue, long long offset, uint32_t opaque) {
    char *to = want_room(out, 2048);
    int size = snprintf(to + 8, 2040,
        "{\"code\":11,\"extFields\":{\"consumerGroup\":\"%s\",\"topic\":\"%s\",\"queueId\":\"%d\",\"queueOffset\":\"%lld\","
        "\"maxMsgNums\":\"%d\",\"sysFlag\":\"%d\",\"commitOffset\":\"0\",\"suspendTimeoutMillis\":\"%d\","
        "\"subscription\":\"%s\",\"subVersion\":\"0\",\"expressionType\":\"%s\"}," END_FRAME,
        of->group, of->topic, queue, offset, of->count, of->hold_ms ? 6 : 4, of->hold_ms, of->subscription,
        of->expression_type, opaque);
    frame_header(out, to, size);
}

/* The commit of a half message, from the answer to it: its offset in the queue, and in the log by its message id. */
static inline void write_commit(const char *topic, struct bytes *out, const char *header, size_t header_size, uint32_t opaque) {
    long long queue_offset = json_number(header, header_size, "\"queueOffset\":", -1), log_offset = 0;
    const char *id = memmem(header, header_size, "\"msgId\":\"", 9);
    if (id == NULL || queue_offset < 0) refuse("an answer to a half message without its offsets");
    for (int i = 16; i < 32; i++) {
        char c = id[9 + i];
        log_offset = log_offset * 16 + (c <= '9' ? c - '0' : c - 'A' + 10);
    }
    char *to = want_room(out, 2048);
    int size = snprintf(to + 8, 2040,
        "{\"code\":37,\"extFields\":{\"topic\":\"%s\",\"producerGroup\":\"bench_producer\",\"tranStateTableOffset\":\"%lld\","
        "\"commitLogOffset\":\"%lld\",\"commitOrRollback\":\"8\",\"fromTransactionCheck\":\"false\",\"msgId\":\"%.32s\","
        "\"transactionId\":\"\",\"bname\":\"broker-a\"}," END_FRAME,
        topic, queue_offset, log_offset, id + 9, opaque);
    frame_header(out, to, size);
}

#endif
