import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.rocketmq.client.AccessChannel;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;

/** Reads a file of trace lines with Java's decoder and writes another with its encoder. */
public class TraceLines {
    public static void main(String[] args) throws Exception {
        String text = Files.readString(Path.of(args[0]));
        StringBuilder written = new StringBuilder();
        for (TraceContext context : TraceDataEncoder.decoderFromTraceDataString(text)) {
            context.setAccessChannel(AccessChannel.LOCAL);
            written.append(TraceDataEncoder.encoderFromContextBean(context).getTransData());
        }
        Files.writeString(Path.of(args[1]), written);
    }
}
