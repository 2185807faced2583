// Reads with kafkajs, which knows groups only. readers_test.go has the format of its input and output.
const readline = require('node:readline')
const { Kafka, logLevel } = require('kafkajs')

async function read(lines, [bootstrap, topic, isolation, start, offset, groupId, clientId]) {
  const kafka = new Kafka({ clientId, brokers: [bootstrap], logLevel: logLevel.ERROR })
  const consumer = kafka.consumer({ groupId, readUncommitted: isolation === 'read_uncommitted', maxWaitTimeInMs: 500 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ message }) => console.log(`record ${message.offset} ${message.value}`),
  })
  if (start === 'offset') consumer.seek({ topic, partition: 0, offset })
  await lines.next()
  await consumer.disconnect()
  console.log('end -1')
}

async function main() {
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    await read(lines, line.value.split(' '))
  }
}

main().catch((error) => {
  console.log(`error ${error}`)
  process.exit(1)
})
