import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * The load of one Java client, the twin of client_load.py: what it did in how much time, as a line of JSON.
 *
 * <p>usage: ClientLoad CASE NAMESRV TOPIC SECONDS COUNT
 */
public class ClientLoad {
    private static final byte[] BODY = "b".repeat(128).getBytes();
    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final AtomicLong COUNT = new AtomicLong();
    private static long counted;
    private static long began;
    private static long cpu;

    public static void main(String[] args) throws Exception {
        String figures = args[0].startsWith("push")
                ? consume(args[0], args[1], args[2], Long.parseLong(args[4]))
                : send(args[0], args[1], args[2], Double.parseDouble(args[3]));
        System.out.println(figures);
        System.out.flush();
        Runtime.getRuntime().halt(0); // threads of the client would keep the program alive
    }

    private static void begin() {
        counted = COUNT.get();
        began = System.nanoTime();
        cpu = SYSTEM.getProcessCpuTime();
    }

    private static String end() {
        long took = System.nanoTime() - began;
        long used = SYSTEM.getProcessCpuTime() - cpu;
        long count = COUNT.get() - counted;
        return String.format(Locale.ROOT, "{\"count\": %d, \"seconds\": %.3f, \"rate\": %.1f, \"cpu_us\": %.3f}",
                count, took / 1e9, count * 1e9 / took, used / 1e3 / Math.max(1, count));
    }

    private static String send(String which, String namesrv, String topic, double seconds) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench_java_" + which);
        producer.setNamesrvAddr(namesrv);
        producer.start();
        producer.send(new Message(topic, BODY));
        Thread sender = new Thread(() -> {
            try {
                if (which.equals("loop")) {
                    oneByOne(producer, topic);
                } else {
                    inFlight(producer, topic);
                }
            } catch (Exception e) {
                e.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });
        sender.start();
        Thread.sleep((long) (seconds * 1000 / 3));
        begin();
        Thread.sleep((long) (seconds * 2000 / 3));
        return end();
    }

    private static void oneByOne(DefaultMQProducer producer, String topic) throws Exception {
        while (true) {
            producer.send(new Message(topic, BODY));
            COUNT.incrementAndGet();
        }
    }

    private static void inFlight(DefaultMQProducer producer, String topic) throws Exception {
        Semaphore slots = new Semaphore(256);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        while (failure.get() == null) {
            slots.acquire();
            producer.send(new Message(topic, BODY), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    COUNT.incrementAndGet();
                    slots.release();
                }

                @Override
                public void onException(Throwable error) {
                    failure.set(error);
                    slots.release();
                }
            });
        }
        throw new IllegalStateException(failure.get());
    }

    private static String consume(String which, String namesrv, String topic, long count) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench_java_" + which + "_" + System.nanoTime());
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (which.equals("push_lists")) {
            consumer.setConsumeMessageBatchMaxSize(32);
        }
        consumer.subscribe(topic, "*");
        long warm = count / 3;
        CountDownLatch over = new CountDownLatch(1);
        AtomicReference<String> figures = new AtomicReference<>();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = COUNT.addAndGet(messages.size());
            long before = now - messages.size();
            if (before < warm && warm <= now) {
                begin();
            } else if (before < count && count <= now) {
                figures.set(end());
                over.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        if (!over.await(120, TimeUnit.SECONDS)) {
            throw new IllegalStateException("only " + COUNT.get() + " messages came");
        }
        return figures.get();
    }
}
