import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.FilterSpi;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * What RocketMQ's SQL92 filter makes of expressions: usage SqlOracle PROPERTIES EXPRESSIONS ANSWERS.
 *
 * <p>PROPERTIES has a property map a line (name, U+0001, value, U+0002 and so on), EXPRESSIONS an expression a line.
 * ANSWERS gets a line for each expression: "refused", or a letter for each map: t, f, n (null) or e (it threw).
 */
public class SqlOracle {
    public static void main(String[] args) throws Exception {
        List<Map<String, Object>> maps = new ArrayList<>();
        for (String line : Files.readString(Path.of(args[0])).split("\n", -1)) {
            Map<String, Object> map = new HashMap<>();
            for (String pair : line.split("\u0002")) {
                int equals = pair.indexOf('\u0001');
                if (equals > 0) {
                    map.put(pair.substring(0, equals), pair.substring(equals + 1));
                }
            }
            maps.add(map);
        }
        FilterSpi filter = FilterFactory.INSTANCE.get("SQL92");
        StringBuilder answers = new StringBuilder();
        for (String text : Files.readString(Path.of(args[1])).split("\n", -1)) {
            answers.append(answer(filter, text, maps)).append('\n');
        }
        Files.write(Path.of(args[2]), answers.toString().getBytes(StandardCharsets.UTF_8));
    }

    private static String answer(FilterSpi filter, String text, List<Map<String, Object>> maps) {
        Expression expression;
        try {
            expression = filter.compile(text);
        } catch (Throwable e) {
            return "refused";
        }
        StringBuilder letters = new StringBuilder();
        for (Map<String, Object> map : maps) {
            try {
                Object value = expression.evaluate(new EvaluationContext() {
                    @Override
                    public Object get(String name) {
                        return map.get(name);
                    }

                    @Override
                    public Map<String, Object> keyValues() {
                        return map;
                    }
                });
                letters.append(value == null ? 'n' : Boolean.TRUE.equals(value) ? 't' : 'f');
            } catch (Throwable e) {
                letters.append('e');
            }
        }
        return letters.toString();
    }
}
