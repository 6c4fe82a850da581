import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's own mqadmin, many commands in one JVM: the words of a command a line on standard input, one JSON object
 * a line on standard output with what the command printed on both streams.
 */
public class MqAdmin {
    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        answers.println("{\"ok\":true}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(printed, true, "UTF-8");
            System.setOut(both);
            System.setErr(both);
            MQAdminStartup.main0(line.split(" "), null);
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("ok", true);
            answer.put("result", printed.toString("UTF-8"));
            answers.println(InteropClient.json(answer));
        }
        Runtime.getRuntime().halt(0);
    }
}
