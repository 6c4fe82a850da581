import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's own mqadmin, many commands in one JVM: the words of a command a line on standard input, one JSON object
 * a line on standard output with what the command printed on both streams.
 *
 * <p>Its requests have three and five seconds: too little for the first ones of a JVM on a busy machine. So it says ok
 * once it can list a broker.
 */
public class MqAdmin {
    private static final int PATIENCE_SECONDS = 120;
    private static final Pattern BROKER = Pattern.compile("^\\S.* V\\d", Pattern.MULTILINE);

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        PrintStream errors = System.err;
        InteropClient.hurryShutdowns();
        String listed = run("clusterList");
        for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
            listed.contains("Exception") || !BROKER.matcher(listed).find(); listed = run("clusterList")) {
            if (System.nanoTime() > end) {
                errors.println("mqadmin finds no broker: " + listed);
                Runtime.getRuntime().halt(1);
            }
        }
        answers.println("{\"ok\":true}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("ok", true);
            answer.put("result", run(line));
            answers.println(InteropClient.json(answer));
        }
        Runtime.getRuntime().halt(0);
    }

    private static String run(String line) throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(printed, true, "UTF-8");
        System.setOut(both);
        System.setErr(both);
        MQAdminStartup.main0(line.isEmpty() ? new String[0] : line.split(" "), null);
        return printed.toString("UTF-8");
    }
}
