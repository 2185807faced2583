"""Reads with confluent-kafka (librdkafka). readers_test.go has the format of its input and output."""
import queue, sys, threading
from confluent_kafka import Consumer, OFFSET_BEGINNING, TopicPartition

lines = queue.Queue()


def listen():
    for line in sys.stdin:
        lines.put(line.split())
    lines.put(None)


threading.Thread(target=listen, daemon=True).start()
for bootstrap, topic, isolation, start, offset, group, client in iter(lines.get, None):
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "isolation.level": isolation, "group.id": group, "client.id": client,
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
    })
    if start == "group":
        consumer.subscribe([topic])
    else:
        consumer.assign([TopicPartition(topic, 0, int(offset) if start == "offset" else OFFSET_BEGINNING)])
    while lines.empty():
        message = consumer.poll(0.05)
        if message is None:
            continue
        if message.error():
            print("error", message.error(), flush=True)
        else:
            print("record", message.offset(), message.value().decode(), flush=True)
    lines.get()
    consumer.commit(asynchronous=False)
    consumer.close()
    print("end -1", flush=True)
