import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/** Short names by Kafka's own class: each line has rules and a principal, separated by tabs. */
public class ShortNames {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", -1);
            List<String> rules = Arrays.asList(parts).subList(1, parts.length);
            System.out.println(outcome(parts[0], rules));
        }
    }

    private static String outcome(String principal, List<String> rules) {
        KerberosShortNamer names;
        try {
            names = KerberosShortNamer.fromUnparsedRules("R", rules);
        } catch (RuntimeException error) {
            return "invalid rules";
        }
        try {
            return "name " + names.shortName(KerberosName.parse(principal));
        } catch (Exception error) {
            return "no name";
        }
    }
}
