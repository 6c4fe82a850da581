import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.manipulation.Filter;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs test classes of RocketMQ in the order of their names on the command line and prints a line for each test:
 * RESULT, class, method, "passed", "failed" or "ignored", milliseconds and the reason, separated by tabs.
 *
 * The property "bolide.skip" names those that are left out, as Class#method and separated by commas.
 */
public final class OwnTests extends RunListener {
    private long began;
    private String state;
    private String reason;

    public static void main(String[] classes) throws Exception {
        Set<String> skipped = new HashSet<>(Arrays.asList(System.getProperty("bolide.skip", "").split(",")));
        JUnitCore core = new JUnitCore();
        core.addListener(new OwnTests());
        for (String name : classes) {
            core.run(Request.aClass(Class.forName(name)).filterWith(new Chosen(skipped)));
        }
        System.exit(0); // what the tests left running is of no interest
    }

    @Override
    public void testStarted(Description test) {
        began = System.currentTimeMillis();
        state = "passed";
        reason = "";
    }

    @Override
    public void testFailure(Failure failure) {
        boolean whole = failure.getDescription().isSuite();
        if (whole) {
            testStarted(failure.getDescription()); // before or behind all tests of a class
        }
        state = "failed";
        reason = String.valueOf(failure.getException()).replaceAll("\\s+", " ");
        if (whole) {
            testFinished(failure.getDescription());
        }
    }

    @Override
    public void testAssumptionFailure(Failure failure) {
        state = "ignored";
        reason = String.valueOf(failure.getMessage()).replaceAll("\\s+", " ");
    }

    @Override
    public void testIgnored(Description test) {
        testStarted(test);
        state = "ignored";
        testFinished(test);
    }

    @Override
    public void testFinished(Description test) {
        long took = System.currentTimeMillis() - began;
        String name = simpleName(test.getClassName());
        String method = String.valueOf(test.getMethodName());
        // One write: the tests log to the same stream.
        System.out.println("\nRESULT\t" + name + "\t" + method + "\t" + state + "\t" + took + "\t" + reason);
    }

    private static String simpleName(String name) {
        return name.substring(name.lastIndexOf('.') + 1);
    }

    private static final class Chosen extends Filter {
        private final Set<String> skipped;

        Chosen(Set<String> skipped) {
            this.skipped = skipped;
        }

        @Override
        public boolean shouldRun(Description test) {
            if (test.isTest()) {
                return !skipped.contains(simpleName(test.getClassName()) + "#" + test.getMethodName());
            }
            return test.getChildren().stream().anyMatch(this::shouldRun);
        }

        @Override
        public String describe() {
            return "those that are not left out";
        }
    }
}
