import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Reads with kafka-clients; the argument is group.protocol. readers_test.go has the format of its input and output. */
public class Reader {
    public static void main(String[] args) throws Exception {
        LinkedBlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Thread input = new Thread(() -> {
            try {
                BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                    lines.add(line);
                }
            } catch (java.io.IOException e) {
                e.printStackTrace();
            }
            System.exit(0);
        });
        input.start();
        while (true) {
            String[] order = lines.take().split(" ");
            try {
                read(order, args[0], lines);
            } catch (RuntimeException e) {
                e.printStackTrace();
                System.out.println("error " + e);
            }
        }
    }

    static void read(String[] order, String protocol, LinkedBlockingQueue<String> lines) {
        TopicPartition partition = new TopicPartition(order[1], 0);
        Properties p = new Properties();
        p.put("bootstrap.servers", order[0]);
        p.put("isolation.level", order[2]);
        p.put("group.id", order[5]);
        p.put("client.id", order[6]);
        p.put("group.protocol", protocol);
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            if (order[3].equals("group")) {
                consumer.subscribe(List.of(order[1]));
            } else {
                consumer.assign(List.of(partition));
                if (order[3].equals("offset")) {
                    consumer.seek(partition, Long.parseLong(order[4]));
                } else {
                    consumer.seekToBeginning(List.of(partition));
                }
            }
            while (lines.poll() == null) {
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(50))) {
                    System.out.println("record " + r.offset() + " " + r.value());
                }
            }
            consumer.commitSync();
            System.out.println("end " + consumer.position(partition));
        }
    }
}
