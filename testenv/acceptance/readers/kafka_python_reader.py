"""Reads with kafka-python. readers_test.go has the format of its input and output."""
import queue, sys, threading
from kafka import KafkaConsumer, TopicPartition

lines = queue.Queue()


def listen():
    for line in sys.stdin:
        lines.put(line.split())
    lines.put(None)


threading.Thread(target=listen, daemon=True).start()
for bootstrap, topic, isolation, start, offset, group, client in iter(lines.get, None):
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, group_id=group, client_id=client,
        auto_offset_reset="earliest", enable_auto_commit=False)
    if start == "group":
        consumer.subscribe([topic])
    else:
        consumer.assign([partition])
        if start == "offset":
            consumer.seek(partition, int(offset))
        else:
            consumer.seek_to_beginning(partition)
    while lines.empty():
        for records in consumer.poll(timeout_ms=50).values():
            for record in records:
                print("record", record.offset, record.value.decode(), flush=True)
    lines.get()
    consumer.commit()
    print("end", consumer.position(partition), flush=True)
    consumer.close()
