import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Timer;
import java.util.TimerTask;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A Java client the tests steer: one command a line on standard input, one JSON object a line on standard output.
 *
 * <p>usage: InteropClient NAMESRV. A command is a verb and key=value words, none with a space in it. Every answer has
 * "ok"; the first line says it once the client knows the broker. A failed command answers {"ok": false, "error": ...} and
 * the program goes on. It ends with its input.
 * Compiles against the 4.9 and the 5.x client; -Drocketmq.serialize.type=ROCKETMQ chooses the binary header.
 */
public class InteropClient {
    private static final int TIMEOUT_MS = 30_000;
    private static final int PATIENCE_SECONDS = 120;
    private static final int COMMIT_MS = 500;
    private static final String BROKER = "broker-a";
    private final String namesrv;
    private final DefaultMQProducer producer;
    private final Map<String, DefaultMQPushConsumer> consumers = new ConcurrentHashMap<>();
    private final Map<String, List<Object>> received = new HashMap<>();
    private final Map<String, TransactionMQProducer> transactions = new HashMap<>();

    InteropClient(String namesrv) throws Exception {
        this.namesrv = namesrv;
        producer = started(namesrv, "interop_producer", false);
        new Timer(true).schedule(new TimerTask() { // the interval of the consumers begins ten seconds after their start
            @Override
            public void run() {
                consumers.values().forEach(c -> c.getDefaultMQPushConsumerImpl().persistConsumerOffset());
            }
        }, COMMIT_MS, COMMIT_MS);
    }

    static DefaultMQProducer started(String namesrv, String group, boolean traced) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer(group, null, traced, null);
        p.setNamesrvAddr(namesrv);
        p.setInstanceName(group);
        p.setSendMsgTimeout(TIMEOUT_MS);
        p.setMqClientApiTimeout(TIMEOUT_MS);
        p.setPollNameServerInterval(1000);
        tracedAtOnce(p);
        p.start();
        acquainted(p.getDefaultMQProducerImpl().getMqClientFactory(), p.getCreateTopicKey());
        return p;
    }

    /** A client of 5.x sends fewer traces than a batch after five seconds. */
    private static void tracedAtOnce(ClientConfig client) throws ReflectiveOperationException {
        try {
            ClientConfig.class.getMethod("setTraceMsgBatchNum", int.class).invoke(client, 1);
        } catch (NoSuchMethodException e) { // 4.9 sends them after half a second
            return;
        }
    }

    /**
     * The client, once it knows the broker by a topic that is there. Its first connection, and the loading of classes
     * for it, hold a lock; a send that tries for that in vain, twice three seconds, says "No route info of this topic".
     */
    private static MQClientInstance acquainted(MQClientInstance client, String topic) throws Exception {
        for (long end = deadline(); client.findBrokerAddressInPublish(BROKER) == null; Thread.sleep(10)) {
            RuntimeException reason = null;
            try {
                client.updateTopicRouteInfoFromNameServer(topic);
            } catch (IllegalStateException e) { // the name server did not answer in time
                reason = e;
            }
            if (System.nanoTime() > end) {
                throw new IllegalStateException("no way to " + BROKER + " is known", reason);
            }
        }
        return client;
    }

    /**
     * Returns once the broker knows that this client has a producer of a group, which the client tells it a second after
     * its start: a check before that reaches nobody, and counts.
     */
    private static void introduced(MQClientInstance client, String group) throws Exception {
        for (long end = deadline();; Thread.sleep(10)) {
            client.sendHeartbeatToAllBrokerWithLock();
            try {
                if (client.getMQClientAPIImpl().getProducerConnectionList(client.findBrokerAddressInPublish(BROKER),
                    group, TIMEOUT_MS).getConnectionSet().stream().anyMatch(
                        c -> c.getClientId().equals(client.getClientId()))) {
                    return;
                }
            } catch (MQBrokerException e) { // it knows nobody of that group
                if (System.nanoTime() > end) {
                    throw e;
                }
            }
        }
    }

    private static long deadline() {
        return System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
    }

    /**
     * Starts a thread that hurries the shutdown of 5.x's clients in the calling thread. The shutdown waits for a thread
     * that checks every three seconds whether to end, or when it is interrupted.
     */
    static void hurryShutdowns() {
        Thread caller = Thread.currentThread();
        Thread hurrying = new Thread(() -> {
            try {
                for (;; Thread.sleep(20)) {
                    if (isAt(caller, ".NettyRemotingClient", "shutdown")) {
                        Thread.getAllStackTraces().keySet().stream()
                            .filter(t -> t.getName().equals("NettyEventExecutor") && isAt(t, ".LinkedBlockingQueue", "poll"))
                            .forEach(Thread::interrupt);
                    }
                }
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        hurrying.setDaemon(true);
        hurrying.start();
    }

    private static boolean isAt(Thread thread, String type, String method) {
        return Arrays.stream(thread.getStackTrace())
            .anyMatch(frame -> frame.getClassName().endsWith(type) && frame.getMethodName().equals(method));
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        hurryShutdowns();
        InteropClient client = null;
        try {
            client = new InteropClient(args[0]);
        } catch (Exception e) { // threads of the producer would keep the program alive
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        out.println(json(Collections.singletonMap("ok", true)));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                String[] words = line.split(" ");
                Map<String, String> arguments = new HashMap<>();
                for (int i = 1; i < words.length; i++) {
                    int equals = words[i].indexOf('=');
                    arguments.put(words[i].substring(0, equals), words[i].substring(equals + 1));
                }
                answer.put("ok", true);
                answer.put("result", client.run(words[0], arguments));
            } catch (Throwable e) {
                Throwable cause = e instanceof InvocationTargetException ? e.getCause() : e;
                answer.put("ok", false);
                answer.put("error", cause.toString());
            }
            out.println(json(answer));
        }
        Runtime.getRuntime().halt(0);
    }

    private Object run(String verb, Map<String, String> a) throws Exception {
        switch (verb) {
            case "send": return send(a);
            case "consume": return consume(a);
            case "lite": return lite(a);
            case "light": return light(a);
            case "await": return await(a);
            case "stop": return stop(a);
            case "transact": return transact(a);
            case "request": return request(a);
            case "query_key": return described(producer.queryMessage(a.get("topic"), a.get("key"), 64, 0,
                Long.MAX_VALUE).getMessageList());
            case "query_id": return described(producer.viewMessage(a.get("topic"), a.get("id")));
            case "recall": return DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class)
                .invoke(producer, a.get("topic"), a.get("handle"));
            case "queues": return producer.fetchPublishMessageQueues(a.get("topic")).size();
            default: throw new IllegalArgumentException("no verb " + verb);
        }
    }

    // ---- sending: topic, mode, count, and as wanted tag, queue (all to this one), shards (queues by a hash), level (of
    // delay), timer (delay in ms, 5.x), light (LMQ list); key is mode-number; mode traced is a producer of its own

    private Object send(Map<String, String> a) throws Exception {
        int count = Integer.parseInt(a.get("count"));
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String key = a.get("mode") + "-" + i;
            Message m = new Message(a.get("topic"), a.getOrDefault("tag", "TagA"), key,
                (key + " \u6b63\u6587 \uD83D\uDE80").getBytes(StandardCharsets.UTF_8));
            m.putUserProperty("number", String.valueOf(i));
            m.putUserProperty("\u57ce\u5e02", "\u676d\u5dde");
            if (a.containsKey("level")) {
                m.setDelayTimeLevel(Integer.parseInt(a.get("level")));
            }
            if (a.containsKey("timer")) {
                Message.class.getMethod("setDelayTimeMs", long.class).invoke(m, Long.parseLong(a.get("timer")));
            }
            if (a.containsKey("light")) {
                m.putUserProperty("INNER_MULTI_DISPATCH", a.get("light"));
            }
            messages.add(m);
        }
        List<Object> results = new ArrayList<>();
        switch (a.get("mode")) {
            case "async":
                sendAsync(messages, results);
                break;
            case "oneway":
                for (Message m : messages) {
                    producer.sendOneway(m);
                }
                break;
            case "batch":
                results.add(described(producer.send(messages, TIMEOUT_MS)));
                break;
            case "traced":
                DefaultMQProducer traced = started(namesrv, "traced_" + a.get("topic"), true);
                for (Message m : messages) {
                    results.add(described(traced.send(m)));
                }
                break; // it goes on: a shutdown would throw away traces that are on their way
            default:
                for (int i = 0; i < count; i++) {
                    results.add(described(sendTo(messages.get(i), i, a)));
                }
        }
        return results;
    }

    private SendResult sendTo(Message m, int number, Map<String, String> a) throws Exception {
        if (a.containsKey("queue")) {
            return producer.send(m, (queues, message, id) -> queues.get((Integer) id), Integer.parseInt(a.get("queue")));
        }
        if (a.containsKey("shards")) {
            String shard = "shard-" + number % Integer.parseInt(a.get("shards"));
            return producer.send(m, new SelectMessageQueueByHash(), shard);
        }
        return producer.send(m);
    }

    private void sendAsync(List<Message> messages, List<Object> results) throws Exception {
        CountDownLatch done = new CountDownLatch(messages.size());
        for (Message m : messages) {
            producer.send(m, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    synchronized (results) {
                        results.add(described(result));
                    }
                    done.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    synchronized (results) {
                        results.add(Collections.singletonMap("status", e.toString()));
                    }
                    done.countDown();
                }
            });
        }
        if (!done.await(TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException(done.getCount() + " async sends without an answer");
        }
    }

    // ---- requests: topic, body, and how long to wait; a consumer started with "answers" answers with the body reversed

    private Object request(Map<String, String> a) throws Exception {
        Message m = new Message(a.get("topic"), a.get("body").getBytes(StandardCharsets.UTF_8));
        Message answer = producer.request(m, Long.parseLong(a.getOrDefault("seconds", "90")) * 1000);
        Map<String, Object> o = new LinkedHashMap<>();
        o.put("topic", answer.getTopic());
        o.put("properties", new TreeMap<>(answer.getProperties()));
        o.put("body", new String(answer.getBody(), StandardCharsets.UTF_8));
        return o;
    }

    private ConsumeConcurrentlyStatus answer(List<MessageExt> list) {
        try {
            for (MessageExt m : list) {
                String body = new StringBuilder(new String(m.getBody(), StandardCharsets.UTF_8)).reverse().toString();
                producer.send(MessageUtil.createReplyMessage(m, body.getBytes(StandardCharsets.UTF_8)), TIMEOUT_MS);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        } catch (Exception e) {
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        }
    }

    // ---- transactions: topic, group, and words execute and check, one letter a message: c commit, r rollback, u unknown

    private Object transact(Map<String, String> a) throws Exception {
        String group = a.get("group");
        List<Object> checks = received.computeIfAbsent(group, g -> new ArrayList<>());
        TransactionMQProducer p = new TransactionMQProducer(group);
        p.setNamesrvAddr(namesrv);
        p.setInstanceName(group);
        p.setSendMsgTimeout(TIMEOUT_MS);
        p.setMqClientApiTimeout(TIMEOUT_MS);
        p.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message m, Object number) {
                return state(a.get("execute"), (Integer) number);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt m) {
                take(checks, Collections.singletonList(m));
                return state(a.get("check"), Integer.parseInt(m.getUserProperty("number")));
            }
        });
        p.start();
        transactions.put(group, p);
        introduced(acquainted(p.getDefaultMQProducerImpl().getMqClientFactory(), p.getCreateTopicKey()), group);
        List<Object> results = new ArrayList<>();
        for (int i = 0; i < a.get("execute").length(); i++) {
            Message m = new Message(a.get("topic"), "TagA", "tx-" + i, ("tx-" + i).getBytes(StandardCharsets.UTF_8));
            m.putUserProperty("number", String.valueOf(i));
            results.add(described(p.sendMessageInTransaction(m, i)));
        }
        return results;
    }

    private static LocalTransactionState state(String word, int number) {
        switch (word.charAt(number)) {
            case 'c': return LocalTransactionState.COMMIT_MESSAGE;
            case 'r': return LocalTransactionState.ROLLBACK_MESSAGE;
            default: return LocalTransactionState.UNKNOW;
        }
    }

    // ---- consuming: group, topic, and orderly, fails, times, tags, sql, broadcast, traced as wanted; "as" tells two
    // consumers of one group apart

    private Object consume(Map<String, String> a) throws Exception {
        String name = a.getOrDefault("as", a.get("group"));
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(a.get("group"), null, new AllocateMessageQueueAveragely(),
            a.containsKey("traced"), null);
        c.setNamesrvAddr(namesrv);
        c.setMqClientApiTimeout(TIMEOUT_MS);
        c.setInstanceName(name);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setPollNameServerInterval(1000);
        c.setHeartbeatBrokerInterval(5000);
        c.setPersistConsumerOffsetInterval(1000);
        c.setAwaitTerminationMillisWhenShutdown(5000); // so that what was handed out is counted as consumed
        tracedAtOnce(c);
        c.setMaxReconsumeTimes(Integer.parseInt(a.getOrDefault("times", "-1")));
        if (a.containsKey("sql")) {
            c.subscribe(a.get("topic"), MessageSelector.bySql(a.get("sql").replace('_', ' ')));
        } else {
            c.subscribe(a.get("topic"), a.getOrDefault("tags", "*").replace('_', ' '));
        }
        if (a.containsKey("brokerside")) { // 5.x: the broker shares the queues out
            c.getClass().getMethod("setClientRebalance", boolean.class).invoke(c, false);
        }
        if (a.containsKey("broadcast")) { // the enum's package is not the same in 4.9 and 5.x
            for (java.lang.reflect.Method method : c.getClass().getMethods()) {
                if (method.getName().equals("setMessageModel")) {
                    method.invoke(c, method.getParameterTypes()[0].getField("BROADCASTING").get(null));
                }
            }
        }
        boolean fails = a.containsKey("fails");
        List<Object> into = received.computeIfAbsent(name, g -> new ArrayList<>());
        if (a.containsKey("orderly")) {
            Set<String> seen = ConcurrentHashMap.newKeySet();
            c.registerMessageListener((MessageListenerOrderly) (list, context) -> {
                take(into, list);
                context.setSuspendCurrentQueueTimeMillis(50);
                return fails && seen.add(list.get(0).getMsgId()) ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                    : ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            c.registerMessageListener((MessageListenerConcurrently) (list, context) -> {
                take(into, list);
                if (a.containsKey("answers")) {
                    return answer(list);
                }
                context.setDelayLevelWhenNextConsume(1);
                return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        c.start();
        consumers.put(name, c);
        return null;
    }

    // ---- pulling: group, topic, count, and as wanted assign (one queue by hand, whole, and then once more from an offset)

    private Object lite(Map<String, String> a) throws Exception {
        DefaultLitePullConsumer c = new DefaultLitePullConsumer(a.get("group"));
        c.setNamesrvAddr(namesrv);
        c.setMqClientApiTimeout(TIMEOUT_MS);
        c.setInstanceName(a.get("group"));
        c.setAutoCommit(false);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (!a.containsKey("assign")) {
            c.subscribe(a.get("topic"), a.getOrDefault("tags", "*").replace('_', ' '));
        }
        c.start();
        MessageQueue assigned = null;
        if (a.containsKey("assign")) {
            int id = Integer.parseInt(a.get("assign"));
            for (MessageQueue queue : c.fetchMessageQueues(a.get("topic"))) {
                assigned = queue.getQueueId() == id ? queue : assigned;
            }
            c.committed(assigned); // connects: two threads that connect at once may lose a request
            c.assign(Collections.singletonList(assigned));
        }
        List<Object> into = new ArrayList<>();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(a.getOrDefault("seconds", "90")));
        int count = Integer.parseInt(a.get("count"));
        if (assigned == null) {
            pollUntil(c, count, end, into);
        } else {
            seekAndPoll(c, assigned, 0, count, end, into);
            int from = Integer.parseInt(a.get("from")); // all of it was given: what comes now is what the seek brings
            seekAndPoll(c, assigned, from, 2 * count - from, end, into);
        }
        c.commitSync();
        c.shutdown();
        return into;
    }

    private void pollUntil(DefaultLitePullConsumer c, int count, long end, List<Object> into) {
        while (into.size() < count && System.nanoTime() < end) {
            take(into, c.poll(200));
        }
    }

    // The consumer forgets a seek when its pull task begins at the same moment: the cancelled task takes the offset with it.
    private void seekAndPoll(
            DefaultLitePullConsumer c, MessageQueue queue, long offset, int count, long end, List<Object> into)
            throws Exception {
        int before = into.size();
        while (into.size() == before && System.nanoTime() < end) {
            c.seek(queue, offset);
            pollUntil(c, before + 1, Math.min(end, System.nanoTime() + TimeUnit.SECONDS.toNanos(5)), into);
        }
        pollUntil(c, count, end, into);
    }

    // ---- a light queue (LMQ), as RocketMQ's example pulls it: from the group's offset to its end, which is committed

    private Object light(Map<String, String> a) throws Exception {
        DefaultMQPullConsumer c = new DefaultMQPullConsumer(a.get("group"));
        c.setNamesrvAddr(namesrv);
        c.setMqClientApiTimeout(TIMEOUT_MS);
        c.setInstanceName(a.get("group"));
        c.start();
        acquainted(c.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory(), a.get("parent"));
        MessageQueue queue = new MessageQueue(a.get("queue"), BROKER, 0);
        List<Object> into = new ArrayList<>();
        long at = Math.max(c.fetchConsumeOffset(queue, true), c.minOffset(queue));
        while (at < c.maxOffset(queue)) {
            PullResult result = c.pull(queue, "*", at, 32);
            if (result.getPullStatus() == PullStatus.FOUND) {
                result.getMsgFoundList().forEach(m -> into.add(new String(m.getBody(), StandardCharsets.UTF_8)));
            }
            at = result.getNextBeginOffset();
        }
        c.updateConsumeOffset(queue, at);
        c.getDefaultMQPullConsumerImpl().getOffsetStore().persistAll(Collections.singleton(queue));
        while (c.fetchConsumeOffset(queue, true) != at) {  // it was sent with no answer asked for
            Thread.sleep(10);
        }
        c.shutdown();
        return into;
    }

    private static void take(List<Object> into, List<MessageExt> list) {
        synchronized (into) {
            list.forEach(m -> into.add(described(m)));
            into.notifyAll();
        }
    }

    private Object await(Map<String, String> a) throws Exception {
        List<Object> from = received.get(a.get("group"));
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(a.getOrDefault("seconds", "90")));
        synchronized (from) {
            while (from.size() < Integer.parseInt(a.get("count"))) {
                long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
                if (left <= 0) {
                    break;
                }
                from.wait(left);
            }
            return new ArrayList<>(from);
        }
    }

    private Object stop(Map<String, String> a) {
        consumers.remove(a.get("group")).shutdown();
        return null;
    }

    // ---- answers

    private static Object described(SendResult r) {
        Map<String, Object> o = new LinkedHashMap<>();
        o.put("status", r.getSendStatus().name());
        o.put("msgId", r.getMsgId());
        o.put("offsetMsgId", r.getOffsetMsgId());
        o.put("broker", r.getMessageQueue().getBrokerName());
        o.put("queueId", r.getMessageQueue().getQueueId());
        o.put("queueOffset", r.getQueueOffset());
        try {
            o.put("recallHandle", SendResult.class.getMethod("getRecallHandle").invoke(r));  // 5.x
        } catch (ReflectiveOperationException e) {
            o.put("recallHandle", null);
        }
        return o;
    }

    private static Object described(Collection<MessageExt> messages) {
        return messages.stream().map(InteropClient::described).collect(Collectors.toList());
    }

    private static Object described(MessageExt m) {
        Map<String, Object> o = new LinkedHashMap<>();
        o.put("topic", m.getTopic());
        o.put("queueId", m.getQueueId());
        o.put("queueOffset", m.getQueueOffset());
        o.put("physicalOffset", m.getCommitLogOffset());
        o.put("msgId", m.getMsgId());
        o.put("keys", m.getKeys());
        o.put("tags", m.getTags());
        o.put("reconsumeTimes", m.getReconsumeTimes());
        o.put("bornTimestamp", m.getBornTimestamp());
        o.put("storeTimestamp", m.getStoreTimestamp());
        o.put("properties", new TreeMap<>(m.getProperties()));
        o.put("body", m.getBody() == null ? null : new String(m.getBody(), StandardCharsets.UTF_8));
        return o;
    }

    static String json(Object o) {
        if (o == null || o instanceof Number || o instanceof Boolean) {
            return String.valueOf(o);
        }
        if (o instanceof Map) {
            return ((Map<?, ?>) o).entrySet().stream().map(e -> json(e.getKey().toString()) + ":" + json(e.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
        }
        if (o instanceof Collection) {
            return ((Collection<?>) o).stream().map(InteropClient::json).collect(Collectors.joining(",", "[", "]"));
        }
        StringBuilder s = new StringBuilder("\"");
        for (char c : o.toString().toCharArray()) {
            if (c == '"' || c == '\\') {
                s.append('\\').append(c);
            } else if (c < 32 || c > 126) {
                s.append(String.format("\\u%04x", (int) c));
            } else {
                s.append(c);
            }
        }
        return s.append('"').toString();
    }
}
