// Registers schemas, writes values and reads them back with two clients for Node.
// Usage: node registry_clients.cjs URL TYPE...
"use strict";

const assert = require("node:assert");
const [url, ...types] = process.argv.slice(2);

const value = { name: "Ada", age: 36 };
const avro = {
  type: "record",
  name: "User",
  fields: [
    { name: "name", type: "string" },
    { name: "age", type: "int", default: 0 },
  ],
};
const jsonSchema = {
  $schema: "http://json-schema.org/draft-07/schema#",
  title: "User",
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
};
const protobuf = 'syntax = "proto3"; message User { string name = 1; int32 age = 2; }';

async function confluent() {
  const sr = require("@confluentinc/schemaregistry");
  const client = sr.SchemaRegistryClient.newClient({ baseURLs: [url] });
  const kinds = {
    AVRO: [sr.AvroSerializer, sr.AvroDeserializer, avro],
    JSON: [sr.JsonSerializer, sr.JsonDeserializer, jsonSchema],
  };
  for (const type of types.filter((each) => each in kinds)) {
    const [Serializer, Deserializer, schema] = kinds[type];
    const topic = `confluent-${type}`;
    const text = JSON.stringify(schema);
    const id = await client.register(`${topic}-value`, { schemaType: type, schema: text });
    const settings = { useLatestVersion: true };
    const writer = new Serializer(client, sr.SerdeType.VALUE, settings);
    const data = await writer.serialize(topic, value);
    assert.strictEqual(data.readInt32BE(1), id);
    const reader = new Deserializer(client, sr.SerdeType.VALUE, {});
    assert.deepEqual({ ...(await reader.deserialize(topic, data)) }, value);
  }
  const broken = { ...avro, fields: [{ name: "age", type: "string" }] };
  await assert.rejects(
    client.register("confluent-AVRO-value", { schemaType: "AVRO", schema: JSON.stringify(broken) }),
    /409|incompatible/i,
  );
}

async function kafkajs() {
  const { SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");
  const registry = new SchemaRegistry({ host: url });
  const schemas = {
    AVRO: JSON.stringify(avro),
    JSON: JSON.stringify(jsonSchema),
    PROTOBUF: protobuf,
  };
  for (const type of types) {
    const schema = { type: SchemaType[type], schema: schemas[type] };
    const { id } = await registry.register(schema, { subject: `kafkajs-${type}` });
    const data = await registry.encode(id, value);
    const found = await registry.decode(data);
    assert.deepEqual(JSON.parse(JSON.stringify(found)), value);
    assert.strictEqual(await registry.getLatestSchemaId(`kafkajs-${type}`), id);
  }
}

confluent()
  .then(kafkajs)
  .then(() => console.log("ok"))
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
