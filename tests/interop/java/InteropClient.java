import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A Java client the tests steer: one command a line on standard input, one JSON object a line on standard output.
 *
 * <p>usage: InteropClient NAMESRV. A command is a verb and key=value words, none with a space in it. Every answer has
 * "ok"; a failed command answers {"ok": false, "error": ...} and the program goes on. It ends with its input.
 * Compiles against the 4.9 and the 5.x client; -Drocketmq.serialize.type=ROCKETMQ chooses the binary header.
 */
public class InteropClient {
    private static final int TIMEOUT_MS = 10_000;
    private final String namesrv;
    private final DefaultMQProducer producer;
    private final Map<String, DefaultMQPushConsumer> consumers = new HashMap<>();
    private final Map<String, List<Object>> received = new HashMap<>();
    private final Map<String, TransactionMQProducer> transactions = new HashMap<>();

    InteropClient(String namesrv) throws Exception {
        this.namesrv = namesrv;
        producer = new DefaultMQProducer("interop_producer");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setPollNameServerInterval(1000);
        producer.start();
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        InteropClient client = new InteropClient(args[0]);
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
                answer.put("ok", false);
                answer.put("error", e.toString());
            }
            out.println(json(answer));
        }
        Runtime.getRuntime().halt(0);
    }

    private Object run(String verb, Map<String, String> a) throws Exception {
        switch (verb) {
            case "send": return send(a);
            case "consume": return consume(a);
            case "await": return await(a);
            case "stop": return stop(a);
            case "transact": return transact(a);
            case "request": return request(a);
            case "query_key": return described(producer.queryMessage(a.get("topic"), a.get("key"), 64, 0,
                Long.MAX_VALUE).getMessageList());
            case "query_id": return described(producer.viewMessage(a.get("topic"), a.get("id")));
            case "queues": return producer.fetchPublishMessageQueues(a.get("topic")).size();
            default: throw new IllegalArgumentException("no verb " + verb);
        }
    }

    // ---- sending: topic, mode, count, and tag, queue (all to this one) as wanted; key is mode-number

    private Object send(Map<String, String> a) throws Exception {
        int count = Integer.parseInt(a.get("count"));
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String key = a.get("mode") + "-" + i;
            Message m = new Message(a.get("topic"), a.getOrDefault("tag", "TagA"), key,
                (key + " \u6b63\u6587 \uD83D\uDE80").getBytes(StandardCharsets.UTF_8));
            m.putUserProperty("number", String.valueOf(i));
            m.putUserProperty("\u57ce\u5e02", "\u676d\u5dde");
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
            default:
                for (Message m : messages) {
                    results.add(described(a.containsKey("queue") ? producer.send(m, (queues, message, number) ->
                        queues.get((Integer) number), Integer.parseInt(a.get("queue"))) : producer.send(m)));
                }
        }
        return results;
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
        Message answer = producer.request(m, Long.parseLong(a.getOrDefault("seconds", "20")) * 1000);
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

    // ---- consuming: group, topic, and orderly, fails, times, tags, sql as wanted

    private Object consume(Map<String, String> a) throws Exception {
        String group = a.get("group");
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(group);
        c.setNamesrvAddr(namesrv);
        c.setInstanceName(group);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setPollNameServerInterval(1000);
        c.setHeartbeatBrokerInterval(5000);
        c.setPersistConsumerOffsetInterval(1000);
        c.setAwaitTerminationMillisWhenShutdown(5000); // so that what was handed out is counted as consumed
        c.setMaxReconsumeTimes(Integer.parseInt(a.getOrDefault("times", "-1")));
        if (a.containsKey("sql")) {
            c.subscribe(a.get("topic"), MessageSelector.bySql(a.get("sql").replace('_', ' ')));
        } else {
            c.subscribe(a.get("topic"), a.getOrDefault("tags", "*").replace('_', ' '));
        }
        if (a.containsKey("brokerside")) { // 5.x: the broker shares the queues out
            c.getClass().getMethod("setClientRebalance", boolean.class).invoke(c, false);
        }
        boolean fails = a.containsKey("fails");
        List<Object> into = received.computeIfAbsent(group, g -> new ArrayList<>());
        if (a.containsKey("orderly")) {
            c.registerMessageListener((MessageListenerOrderly) (list, context) -> {
                take(into, list);
                return ConsumeOrderlyStatus.SUCCESS;
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
        consumers.put(group, c);
        return null;
    }

    private static void take(List<Object> into, List<MessageExt> list) {
        synchronized (into) {
            list.forEach(m -> into.add(described(m)));
            into.notifyAll();
        }
    }

    private Object await(Map<String, String> a) throws Exception {
        List<Object> from = received.get(a.get("group"));
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(a.getOrDefault("seconds", "20")));
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
