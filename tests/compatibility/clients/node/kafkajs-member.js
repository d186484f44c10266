// kafkajs as a member of a group. Usage: kafkajs-member.js HOST:PORT TOPIC GROUP classic roundrobin
import kafkajs from 'kafkajs'

const { Kafka, logLevel } = kafkajs

const SESSION_MS = 6000
const HEARTBEAT_MS = 500
const METADATA_AGE_MS = 1000
const FETCH_WAIT_MS = 100
// So small that commits are many: a batch is all that a fetch has of a partition.
const BATCH_BYTES = 16384
const RETRY = { initialRetryTime: 100, maxRetryTime: 1000, retries: 50 }

const [bootstrap, topic, groupId, , assignor] = process.argv.slice(2)
if (assignor !== 'roundrobin') throw new Error(`kafkajs has no such assignor: ${assignor}`)

const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR, retry: RETRY })
const consumer = kafka.consumer({
  groupId,
  sessionTimeout: SESSION_MS,
  heartbeatInterval: HEARTBEAT_MS,
  metadataMaxAge: METADATA_AGE_MS,
  maxWaitTimeInMs: FETCH_WAIT_MS,
  maxBytesPerPartition: BATCH_BYTES,
  retry: RETRY,
})
const { CRASH, GROUP_JOIN, REBALANCING } = consumer.events

// kafkajs joins again only when the batch that is at work is done.
async function eachBatch({ batch, resolveOffset, commitOffsetsIfNecessary }) {
  const { messages, partition } = batch
  const first = messages[0].offset
  const last = messages[messages.length - 1].offset
  const next = `${BigInt(last) + 1n}`
  console.log(`records ${partition} ${first} ${last} ${messages.length}`)
  resolveOffset(last)
  await commitOffsetsIfNecessary({ topics: [{ topic, partitions: [{ partition, offset: next }] }] })
  console.log(`committed ${partition} ${next}`)
}

const assigned = (partitions) => console.log(`assigned ${partitions.join(',')}`)
consumer.on(REBALANCING, () => assigned([]))
consumer.on(GROUP_JOIN, ({ payload }) => assigned(payload.memberAssignment[topic] ?? []))
consumer.on(CRASH, ({ payload }) => {
  if (!payload.restart) process.exitCode = 1
})
process.on('SIGTERM', async () => {
  await consumer.disconnect()
  process.exit()
})

await consumer.connect()
await consumer.subscribe({ topic, fromBeginning: true })
await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch })
