import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Java's client as a producer or a consumer that keeps a journal, as proof/attack/producing.py and consuming.py do.
 *
 * <p>usage: JournalClient produce NAMESRV JOURNAL NAME SEED PAUSE_MS FIRST STRIDE BROKER,... DUE,...
 * CODE,... REMARK|..., or JournalClient consume NAMESRV JOURNAL NAME SEED. A response with one of the codes says that the
 * message is not stored, unless its remark contains one of the remarks. A producer sends until a line comes from
 * standard input; both end with it. A body is the number of its message alone.
 */
public class JournalClient {
    private static final int TIMEOUT_MS = 6_000;
    private static final double FIRST_REFUSED = 0.05;

    private final FileChannel journal;
    private final String name;
    private final AtomicLong serial = new AtomicLong();
    private volatile boolean quiet;
    /** Response codes by which a broker says that it does not keep the message, and remarks that promise less. */
    private Set<Integer> refusals = new TreeSet<>();
    private String[] nobodyKnows = {};

    JournalClient(String path, String name) throws Exception {
        journal = FileChannel.open(Paths.get(path), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        this.name = name;
    }

    public static void main(String[] words) throws Exception {
        JournalClient client = new JournalClient(words[2], words[3]);
        long seed = Long.parseLong(words[4]);
        if (words[0].equals("produce")) {
            client.produce(words[1], seed, Arrays.copyOfRange(words, 5, words.length));
        } else {
            client.consume(words[1], seed);
        }
        System.exit(0);
    }

    // -- the journal

    private synchronized void note(String what, Object... fields) {
        StringBuilder line = new StringBuilder("[").append(System.nanoTime() / 1e9).append(',').append(json(what));
        for (Object field : fields) {
            line.append(',').append(json(field));
        }
        try {
            ByteBuffer bytes = ByteBuffer.wrap(line.append("]\n").toString().getBytes(StandardCharsets.UTF_8));
            while (bytes.hasRemaining()) {
                journal.write(bytes);
            }
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static String json(Object value) {
        if (value instanceof Map) {
            List<String> pairs = new ArrayList<>();
            ((Map<?, ?>) value).forEach((key, of) -> pairs.add(json(key) + ":" + json(of)));
            return "{" + String.join(",", pairs) + "}";
        }
        if (value instanceof List) {
            List<String> parts = new ArrayList<>();
            ((List<?>) value).forEach(of -> parts.add(json(of)));
            return "[" + String.join(",", parts) + "]";
        }
        if (!(value instanceof String)) {
            return String.valueOf(value);
        }
        StringBuilder text = new StringBuilder("\"");
        for (char c : ((String) value).toCharArray()) {
            text.append(c == '"' || c == '\\' || c < ' ' ? String.format("\\u%04x", (int) c) : c);
        }
        return text.append('"').toString();
    }

    /** Waits for a line, or the end, of standard input. */
    private static void line(BufferedReader input) throws Exception {
        input.readLine();
    }

    // -- sending

    private void produce(String namesrv, long seed, String[] words) throws Exception {
        long pause = Long.parseLong(words[0]);
        long stride = Long.parseLong(words[2]);
        AtomicLong next = new AtomicLong(Long.parseLong(words[1]));
        String[] brokers = words[3].split(",");
        String[] due = words[4].split(",");
        for (String code : words[5].split(",")) {
            refusals.add(Integer.valueOf(code));
        }
        nobodyKnows = words[6].split("\\|");
        DefaultMQProducer producer = new DefaultMQProducer(name + "-group");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setPollNameServerInterval(1_000);
        producer.start();
        note("ready", name);
        List<Task> tasks = new ArrayList<>();
        tasks.add(chance -> send(producer, null, Arrays.asList(message("plain", next, stride, "plain", 0, "", chance))));
        tasks.add(chance -> {
            List<Message> batch = new ArrayList<>();
            for (int left = 1 + chance.nextInt(8); left > 0; left--) {
                batch.add(message("batch", next, stride, "plain", 0, "", chance));
            }
            send(producer, null, batch);
        });
        tasks.add(chance -> {
            int level = 1 + chance.nextInt(due.length);
            double seconds = Double.parseDouble(due[level - 1]);
            Message message = message("delay", next, stride, "delayed", seconds, "", chance);
            message.setDelayTimeLevel(level);
            send(producer, null, Arrays.asList(message));
        });
        for (String broker : brokers) {
            String lane = name + "-" + ProcessHandle.current().pid() + "-" + broker;
            MessageQueue queue = new MessageQueue("orders", broker, 0);
            tasks.add(chance -> send(producer, queue, Arrays.asList(message("orders", next, stride, "plain", 0, lane, chance))));
        }
        CountDownLatch done = new CountDownLatch(tasks.size());
        for (int at = 0; at < tasks.size(); at++) {
            Task task = tasks.get(at);
            Random chance = new Random(seed * 31 + at);
            new Thread(() -> {
                try {
                    while (!quiet) {
                        task.run(chance);
                        Thread.sleep((long) (-Math.log(1 - chance.nextDouble()) * pause));
                    }
                } catch (Throwable e) {
                    note("failed", name + ": " + e);
                }
                done.countDown();
            }).start();
        }
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        line(input);
        quiet = true;
        done.await();
        note("quiet");
        line(input);
        producer.shutdown();
    }

    private interface Task {
        void run(Random chance) throws Exception;
    }

    private Message message(String topic, AtomicLong next, long stride, String kind, double due, String lane,
        Random chance) {
        long number = next.getAndAdd(stride);
        String tags = Arrays.asList("a", "b", "c", "").get(chance.nextInt(4));
        String n = String.valueOf(chance.nextInt(100));
        note("send", number, topic, 0, tags, "k" + number, Collections.singletonMap("n", n), kind, due, lane);
        Message message = new Message(topic, tags, "k" + number, ("#" + number + "#").getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("n", n);
        return message;
    }

    private void send(DefaultMQProducer producer, MessageQueue queue, List<Message> messages) throws Exception {
        List<Object> numbers = new ArrayList<>();
        for (Message message : messages) {
            numbers.add(numberOf(message.getBody()));
        }
        boolean batch = messages.get(0).getTopic().equals("batch");
        try {
            SendResult result = batch ? producer.send(messages)
                : queue == null ? producer.send(messages.get(0)) : producer.send(messages.get(0), queue);
            MessageQueue at = result.getMessageQueue();
            if (result.getSendStatus() == SendStatus.SEND_OK) {
                note("done", numbers, at.getBrokerName(), at.getTopic(), at.getQueueId(), result.getQueueOffset());
            } else {
                note("unknown", numbers, result.getSendStatus().name());
            }
        } catch (InterruptedException e) {
            throw e;
        } catch (Exception e) {
            String cause = e.getCause() == null ? "" : " caused by " + e.getCause();
            note(refused(e) ? "refused" : "unknown", numbers, e + cause);
            Thread.sleep(200);
        }
    }

    private boolean refused(Exception e) {
        Throwable cause = e.getCause() instanceof MQBrokerException ? e.getCause() : e;
        if (!(cause instanceof MQBrokerException)) {
            return false;
        }
        MQBrokerException answer = (MQBrokerException) cause;
        String remark = String.valueOf(answer.getErrorMessage());
        return refusals.contains(answer.getResponseCode()) && Arrays.stream(nobodyKnows).noneMatch(remark::contains);
    }

    private static long numberOf(byte[] body) {
        String text = new String(body, 0, Math.min(body.length, 24), StandardCharsets.ISO_8859_1);
        int end = text.indexOf('#', 1);
        try {
            return Long.parseLong(text.substring(1, end));
        } catch (RuntimeException e) { // no body of this run
            return -1;
        }
    }

    // -- consuming

    private void consume(String namesrv, long seed) throws Exception {
        Map<String, List<String>> groups = new LinkedHashMap<>();
        groups.put("attack-all", Arrays.asList("plain", "batch", "delay", "timer", "trans", "orders"));
        groups.put("attack-tagged", Arrays.asList("plain"));
        groups.put("attack-sql", Arrays.asList("plain"));
        groups.put("attack-orderly", Arrays.asList("orders"));
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (Map.Entry<String, List<String>> group : groups.entrySet()) {
            consumers.add(consumer(namesrv, group.getKey(), group.getValue(), new Random(seed)));
        }
        note("ready", name);
        line(new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)));
        consumers.forEach(DefaultMQPushConsumer::shutdown);
    }

    /** A consumer that runs. One whose start failed, as no broker could be reached, cannot start again. */
    private DefaultMQPushConsumer consumer(String namesrv, String group, List<String> topics, Random chance)
        throws Exception {
        while (true) {
            DefaultMQPushConsumer consumer = newConsumer(namesrv, group, topics, chance);
            try {
                consumer.start();
                return consumer;
            } catch (MQClientException e) {
                note("waits", String.valueOf(e));
                consumer.shutdown();
                TimeUnit.MILLISECONDS.sleep(500);
            }
        }
    }

    private DefaultMQPushConsumer newConsumer(String namesrv, String group, List<String> topics, Random chance)
        throws MQClientException {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1_000);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        for (String topic : topics) {
            if (group.equals("attack-sql")) {
                consumer.subscribe(topic, MessageSelector.bySql("n > 60"));
            } else {
                consumer.subscribe(topic, group.equals("attack-tagged") ? "a || b" : "*");
            }
        }
        if (group.equals("attack-orderly")) {
            consumer.setSuspendCurrentQueueTimeMillis(200);
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                accepted(group, messages.get(0), context.getMessageQueue(), chance)
                    ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                accepted(group, messages.get(0), context.getMessageQueue(), chance)
                    ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        return consumer;
    }

    private boolean accepted(String group, MessageExt message, MessageQueue queue, Random chance) {
        String mark = ProcessHandle.current().pid() + "-" + serial.incrementAndGet();
        CRC32 check = new CRC32();
        check.update(message.getBody());
        String tags = message.getTags() == null ? "" : message.getTags();
        String keys = message.getProperty(MessageConst.PROPERTY_KEYS);
        String n = message.getProperty("n");
        note("got", mark, group, queue.getBrokerName(), queue.getTopic(), queue.getQueueId(), message.getQueueOffset(),
            numberOf(message.getBody()), message.getTopic(), check.getValue(), tags, keys == null ? "" : keys,
            Collections.singletonMap("n", n == null ? "" : n));
        boolean accepted = message.getReconsumeTimes() > 0 || chance.nextDouble() >= FIRST_REFUSED;
        note("listened", mark, accepted);
        return accepted;
    }
}
