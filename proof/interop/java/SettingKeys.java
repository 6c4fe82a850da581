import java.lang.reflect.Field;
import java.lang.reflect.Method;

/**
 * Prints what a .conf file can set: class, key and default of every setter of these classes, each on a line.
 *
 * <p>usage: SettingKeys CLASS...
 */
public class SettingKeys {
    public static void main(String[] args) throws Exception {
        for (String name : args) {
            Class<?> kind = Class.forName(name);
            Object made = kind.getDeclaredConstructor().newInstance();
            for (Method method : kind.getMethods()) {
                String setter = method.getName();
                if (setter.startsWith("set") && setter.length() > 3 && method.getParameterCount() == 1) {
                    String key = setter.substring(3, 4).toLowerCase() + setter.substring(4);
                    System.out.println("SETTING\t" + kind.getSimpleName() + "\t" + key + "\t" + value(made, key));
                }
            }
        }
    }

    private static Object value(Object made, String key) throws Exception {
        for (Class<?> kind = made.getClass(); kind != null; kind = kind.getSuperclass()) {
            for (Field field : kind.getDeclaredFields()) {
                if (field.getName().equals(key)) {
                    field.setAccessible(true);
                    return field.get(made);
                }
            }
        }
        return null;
    }
}
