import java.util.Arrays;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Runs a program in a JVM that has sent a message: one that waits three seconds for its first answer, as RocketMQ's do,
 * has used them up with the loading of classes where the machine is busy.
 *
 * <p>usage: Warmed NAMESRV PROGRAM WORD...
 */
public class Warmed {
    public static void main(String[] args) throws Exception {
        try {
            DefaultMQProducer p = InteropClient.started(args[0], "warming_up", false);
            p.send(new Message("WarmingUp", new byte[100]));
            p.shutdown();
        } catch (Exception e) { // threads of the producer would keep the program alive
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Class<?> program = Class.forName(args[1]);
        program.getMethod("main", String[].class).invoke(null, (Object) Arrays.copyOfRange(args, 2, args.length));
    }
}
