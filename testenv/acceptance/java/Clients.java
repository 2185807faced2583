import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs main classes one after the other in one JVM: starting one for each of Kafka's tools would take most of the test.
 *
 * Standard input is a sequence of calls: the number of arguments, the main class and its arguments, the length and bytes
 * of its standard input. Each is answered on standard output with exit status, standard output and standard error.
 */
public class Clients {
    /** What a tool's exit is here. */
    static class Exited extends RuntimeException {
        Exited(int status) {
            super("exit " + status, null, false, false);
        }
    }

    /** The first exit counts: a tool may catch what stands for it here, and exit once more because of that. */
    static Integer firstExit;

    /** What the tool has left to do when its process ends, such as to flush its producer. */
    static final List<Runnable> hooks = new ArrayList<>();

    public static void main(String[] ignored) throws IOException {
        DataInputStream calls = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        PrintStream realErr = System.err;
        Exit.Procedure exit = (status, message) -> {
            if (firstExit == null) {
                firstExit = status;
            }
            throw new Exited(status);
        };
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        while (true) {
            int count;
            try {
                count = calls.readInt();
            } catch (EOFException e) {
                return;
            }
            String mainClass = calls.readUTF();
            String[] args = new String[count - 1];
            for (int i = 0; i < args.length; i++) {
                args[i] = calls.readUTF();
            }
            byte[] input = new byte[calls.readInt()];
            calls.readFully(input);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            int status = call(mainClass, args, new ByteArrayInputStream(input), out, err);
            System.setErr(realErr);
            answers.writeInt(status);
            answers.writeInt(out.size());
            out.writeTo(answers);
            answers.writeInt(err.size());
            err.writeTo(answers);
            answers.flush();
        }
    }

    static int call(String mainClass, String[] args, InputStream in, ByteArrayOutputStream out, ByteArrayOutputStream err) {
        PrintStream outStream = new PrintStream(out, true);
        PrintStream errStream = new PrintStream(err, true);
        System.setIn(in);
        System.setOut(outStream);
        System.setErr(errStream);
        firstExit = null;
        int status = 0;
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Exited)) {
                e.getCause().printStackTrace(errStream);
                status = 1;
            }
        } catch (ReflectiveOperationException e) {
            e.printStackTrace(errStream);
            status = 1;
        }
        hooks.forEach(Runnable::run);
        hooks.clear();
        outStream.flush();
        errStream.flush();
        return firstExit != null ? firstExit : status;
    }

    /**
     * Sends one record to partition 0 of each topic, in a transaction when there is a transactional.id, and prints what
     * became of each and of the transaction. Arguments: comma separated topics, then name=value configs.
     */
    public static class Producer {
        public static void main(String[] args) {
            Map<String, Object> configs = new HashMap<>();
            configs.put("key.serializer", StringSerializer.class.getName());
            configs.put("value.serializer", StringSerializer.class.getName());
            for (int i = 1; i < args.length; i++) {
                String[] config = args[i].split("=", 2);
                configs.put(config[0], config[1]);
            }
            boolean transactional = configs.containsKey("transactional.id");
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(configs)) {
                if (transactional) {
                    producer.initTransactions();
                    producer.beginTransaction();
                }
                for (String topic : args[0].split(",")) {
                    send(producer, topic);
                }
                if (transactional) {
                    try {
                        producer.commitTransaction();
                        System.out.println("committed");
                    } catch (RuntimeException e) {
                        producer.abortTransaction();
                        System.out.println("aborted");
                    }
                }
            }
        }

        static void send(KafkaProducer<String, String> producer, String topic) {
            try {
                RecordMetadata written = producer.send(new ProducerRecord<>(topic, 0, "key", "from Java")).get();
                System.out.println(topic + ": written at " + written.offset());
            } catch (ExecutionException e) {
                System.out.println(topic + ": " + e.getCause().getClass().getSimpleName() + ": " + e.getCause().getMessage());
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            } catch (RuntimeException e) {
                System.out.println(topic + ": " + e.getClass().getSimpleName() + ": " + e.getMessage());
            }
        }
    }
}
