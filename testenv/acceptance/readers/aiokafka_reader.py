"""Reads with aiokafka. readers_test.go has the format of its input and output."""
import asyncio, queue, sys, threading
from aiokafka import AIOKafkaConsumer, TopicPartition

lines = queue.Queue()


def listen():
    for line in sys.stdin:
        lines.put(line.split())
    lines.put(None)


async def read(bootstrap, topic, isolation, start, offset, group, client):
    partition = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, group_id=group, client_id=client,
        auto_offset_reset="earliest", enable_auto_commit=False)
    if start == "group":
        consumer.subscribe([topic])
    else:
        consumer.assign([partition])
    await consumer.start()
    if start == "offset":
        consumer.seek(partition, int(offset))
    elif start == "beginning":
        await consumer.seek_to_beginning(partition)
    while lines.empty():
        for records in (await consumer.getmany(timeout_ms=50)).values():
            for record in records:
                print("record", record.offset, record.value.decode(), flush=True)
    lines.get()
    await consumer.commit()
    print("end", await consumer.position(partition), flush=True)
    await consumer.stop()


threading.Thread(target=listen, daemon=True).start()
for order in iter(lines.get, None):
    asyncio.run(read(*order))
