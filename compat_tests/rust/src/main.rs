//! Registers schemas of three formats, writes values and reads them back with
//! schema_registry_converter. Usage: registryclients URL

use apache_avro::types::Value;
use schema_registry_converter::async_impl::avro::{AvroDecoder, AvroEncoder};
use schema_registry_converter::async_impl::json::{JsonDecoder, JsonEncoder};
use schema_registry_converter::async_impl::proto_raw::{ProtoRawDecoder, ProtoRawEncoder};
use schema_registry_converter::async_impl::schema_registry::{
    get_all_subjects, get_all_versions, post_schema, SrSettings,
};
use schema_registry_converter::error::SRCError;
use schema_registry_converter::schema_registry_common::{
    SchemaType, SubjectNameStrategy, SuppliedReference, SuppliedSchema,
};

const USER: &str = r#"{"type":"record","name":"User","namespace":"rust","fields":[
    {"name":"name","type":"string"},{"name":"home","type":"Address"}]}"#;
const ADDRESS: &str = r#"{"type":"record","name":"Address","namespace":"rust","fields":[
    {"name":"street","type":"string"}]}"#;
const BROKEN: &str = r#"{"type":"record","name":"User","namespace":"rust","fields":[
    {"name":"mail","type":"string"}]}"#;
const OBJECT: &str = r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",
    "properties":{"name":{"type":"string"}},"required":["name"]}"#;
const PROTO: &str = r#"syntax = "proto3"; package rust; message Other { int32 a = 1; }
    message User { message Inner { string name = 1; } }"#;

fn supplied(name: &str, kind: SchemaType, text: &str) -> SuppliedSchema {
    SuppliedSchema::new(Some(name.into()), kind, text.into())
}

fn strategy(topic: &str, schema: SuppliedSchema) -> SubjectNameStrategy {
    SubjectNameStrategy::TopicNameStrategyWithSchema(topic.into(), false, schema)
}

async fn avro(settings: &SrSettings) -> Result<(), SRCError> {
    let address = SuppliedReference::new("rust.Address".into(), "address".into(), ADDRESS.into());
    let schema = supplied("rust.User", SchemaType::Avro, USER).with_references(vec![address]);
    let strategy = strategy("rust-avro", schema);
    let encoder = AvroEncoder::new(settings.clone());
    let home = Value::Record(vec![("street".into(), Value::String("s".into()))]);
    let fields = vec![("name", Value::String("n".into())), ("home", home)];
    let data = encoder.encode(fields.clone(), strategy).await?;
    let found = AvroDecoder::new(settings.clone()).decode(Some(&data)).await?;
    let expected = fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    assert_eq!(found.value, Value::Record(expected));
    let refused = post_schema(
        settings,
        "rust-avro-value".into(),
        supplied("rust.User", SchemaType::Avro, BROKEN),
    );
    let error = refused.await.expect_err("an incompatible schema was registered");
    assert!(format!("{error:?}").contains("READER_FIELD_MISSING_DEFAULT_VALUE"), "{error:?}");
    Ok(())
}

async fn json(settings: &SrSettings) -> Result<(), SRCError> {
    let strategy = strategy("rust-json", supplied("User", SchemaType::Json, OBJECT));
    let value = serde_json::json!({"name": "n"});
    let data = JsonEncoder::new(settings.clone()).encode(&value, strategy).await?;
    let decoder = JsonDecoder::new(settings.clone());
    let found = decoder.decode(Some(&data)).await?.expect("a value");
    assert_eq!(found.value, value);
    assert!(decoder.validate(&found.schema, &found.value).is_ok());
    Ok(())
}

async fn protobuf(settings: &SrSettings) -> Result<(), SRCError> {
    let strategy = strategy("rust-proto", supplied("rust.User", SchemaType::Protobuf, PROTO));
    let message = [10, 1, b'n']; // field 1, text of one byte
    let encoder = ProtoRawEncoder::new(settings.clone());
    let data = encoder.encode(&message, "rust.User.Inner", strategy).await?;
    assert_eq!(data[5..8], [4, 2, 0], "the path of message indexes: two, 1, 0");
    let decoder = ProtoRawDecoder::new(settings.clone());
    let found = decoder.decode(Some(&data)).await?.expect("a value");
    assert_eq!(found.bytes, message);
    assert_eq!(*found.full_name, *"rust.User.Inner");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), SRCError> {
    let settings = SrSettings::new(std::env::args().nth(1).expect("a URL"));
    avro(&settings).await?;
    json(&settings).await?;
    protobuf(&settings).await?;
    let mut subjects = get_all_subjects(&settings).await?;
    subjects.sort();
    assert_eq!(subjects, ["address", "rust-avro-value", "rust-json-value", "rust-proto-value"]);
    assert_eq!(get_all_versions(&settings, "rust-avro-value".into()).await?, [1]);
    println!("ok");
    Ok(())
}
