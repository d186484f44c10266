// kafkajs against a broker. Usage: kafkajs.js HOST:PORT TOPIC-PREFIX
//
// kafkajs reads only in a consumer group, so what was produced is verified by its offsets alone.
import assert from 'node:assert/strict'

import kafkajs from 'kafkajs'

import { register, TYPES } from './codecs.js'
import { CODECS, COUNT, PARTITIONS, PER_PARTITION, record, START_MS } from './records.js'

const { ConfigResourceTypes, Kafka, logLevel } = kafkajs

const INVALID_CONFIG = 40
const MESSAGE_TOO_LARGE = 10
const UNKNOWN_TOPIC_OR_PARTITION = 3
const RECORDS_PER_REQUEST = 500
// Few: kafkajs also repeats a deletion of a topic that does not exist.
const RETRIES = 2
const DESCRIPTION_LAG_MS = 5000

const [bootstrap, prefix] = process.argv.slice(2)
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: RETRIES } })
const admin = kafka.admin()

// Runs one check and prints its line for the matrix.
async function check(name, work) {
  try {
    await work()
    console.log(`CHECK ${name} ok`)
  } catch (problem) {
    console.log(problem)
    console.log(`CHECK ${name} FAIL ${String(problem).replaceAll('\n', ' ')}`)
  }
}

// A broker answers a description from its copy of the metadata, which follows a change a moment later.
async function soon(described) {
  const deadline = Date.now() + DESCRIPTION_LAG_MS
  for (;;) {
    try {
      return await described()
    } catch (problem) {
      if (Date.now() > deadline) throw problem
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}

async function create(topic, numPartitions, configs = {}) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
  const topics = [{ topic, numPartitions, replicationFactor: 1, configEntries }]
  assert.ok(await admin.createTopics({ topics }), `${topic} is there already`)
}

async function produce(topic, codec, messages, settings = {}) {
  const producer = kafka.producer(settings)
  await producer.connect()
  try {
    for (let first = 0; first < messages.length; first += RECORDS_PER_REQUEST) {
      const part = messages.slice(first, first + RECORDS_PER_REQUEST)
      await producer.send({ topic, acks: -1, compression: TYPES[codec], messages: part })
    }
  } finally {
    await producer.disconnect()
  }
}

const all = () => Array.from({ length: COUNT }, (_, number) => record(number))

async function expectOffsets(topic, partition, low, high) {
  const offsets = await admin.fetchTopicOffsets(topic)
  const found = offsets.find((it) => it.partition === partition)
  assert.deepEqual([found.low, found.high], [`${low}`, `${high}`], `partition ${partition} of ${topic}`)
}

async function there(name, codec, settings) {
  const topic = `${prefix}-${name}`
  await create(topic, PARTITIONS)
  await produce(topic, codec, all(), settings)
  for (let partition = 0; partition < PARTITIONS; partition++) {
    await expectOffsets(topic, partition, 0, PER_PARTITION)
  }
}

async function configs(topic) {
  const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic }]
  const answer = await admin.describeConfigs({ resources, includeSynonyms: true })
  const entries = answer.resources[0].configEntries
  return Object.fromEntries(entries.map(({ configName, configValue }) => [configName, configValue]))
}

async function checkConfigs(topic) {
  const described = await configs(topic)
  assert.equal(described['retention.ms'], '1000')
  assert.ok('segment.bytes' in described)
  // The older AlterConfigs: it takes back what it does not name.
  const configEntries = [{ name: 'segment.ms', value: '5000' }]
  await admin.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] })
  await soon(async () => {
    const altered = await configs(topic)
    assert.equal(altered['segment.ms'], '5000')
    assert.notEqual(altered['retention.ms'], '1000')
  })
}

async function checkAdmin() {
  const topic = `${prefix}-admin`
  await create(topic, PARTITIONS, { 'retention.ms': '1000' })
  await checkConfigs(topic)

  const cluster = await admin.describeCluster()
  assert.ok(cluster.brokers.some(({ nodeId }) => nodeId === cluster.controller), 'no controller')

  await admin.createPartitions({ topicPartitions: [{ topic, count: PARTITIONS + 1 }] })
  await soon(async () => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    assert.equal(topics[0].partitions.length, PARTITIONS + 1)
  })

  await produce(topic, 'none', all())
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '1000' }] })
  await expectOffsets(topic, 0, 1000, PER_PARTITION)
  await expectOffsets(topic, 1, 0, PER_PARTITION)

  await admin.deleteTopics({ topics: [topic] })
  await soon(async () => assert.ok(!(await admin.listTopics()).includes(topic), 'still listed'))
}

async function checkTimestamp() {
  const topic = `${prefix}-gzip`
  const at = async (timestamp, partition) => {
    const offsets = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp)
    return offsets.find((it) => it.partition === partition).offset
  }
  assert.equal(await at(START_MS + 5000, 1), '2500')
  // Where no record is young enough, kafkajs puts the end of the log.
  assert.equal(await at(START_MS + COUNT, 0), `${PER_PARTITION}`)
}

// Kafka's error code, wherever kafkajs has wrapped it.
function codeOf(problem) {
  if (problem === undefined) return undefined
  return problem.code ?? codeOf(problem.errors?.[0] ?? problem.cause)
}

async function refused(work, code) {
  try {
    await work
  } catch (problem) {
    assert.equal(codeOf(problem), code, String(problem))
    return
  }
  assert.fail(`accepted, but error ${code} was expected`)
}

async function checkErrors() {
  await refused(create(`${prefix}-bad`, 1, { 'retention.ms': 'soon' }), INVALID_CONFIG)
  await refused(admin.deleteTopics({ topics: [`${prefix}-missing`] }), UNKNOWN_TOPIC_OR_PARTITION)
  const small = `${prefix}-small`
  await create(small, 1, { 'max.message.bytes': '1000' })
  await refused(produce(small, 'none', [{ partition: 0, value: 'x'.repeat(5000) }]), MESSAGE_TOO_LARGE)
}

await register()
await admin.connect()
await check('admin', checkAdmin)
for (const codec of CODECS) {
  await check(codec, () => there(codec, codec))
}
await check('idempotent', () => there('idempotent', 'lz4', { idempotent: true, maxInFlightRequests: 1 }))
console.log('CHECK offset - reads only in a group')
await check('timestamp', checkTimestamp)
await check('errors', checkErrors)
await admin.disconnect()
