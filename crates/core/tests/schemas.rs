//! The OpenAPI schemas agree with the types of requests and answers.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use boon::{Compiler, SchemaIndex, Schemas};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_core::Policy;
use tidegate_core::limits::ConfigurableLimits;
use tidegate_core::openapi::ApiSchemas;
use tidegate_core::v1::consume::{
    AckBody, FailBody, ReleaseBody, ReserveAnswer, ReserveBody, SettleAnswer, SettleBody, TouchBody,
};
use tidegate_core::v1::input::{CheckedRequest, read_body};
use tidegate_core::v1::job::{
    ActAnswer, ActBody, CancelAnswer, ChangedJob, JobChange, JobDetails, JobExplanation,
    PromotedJob,
};
use tidegate_core::v1::keys::{CreateKeyBody, CreatedKey, KeyPage, RevokedKey};
use tidegate_core::v1::namespace::NamespaceDetails;
use tidegate_core::v1::problem::Problem;
use tidegate_core::v1::publish::{BatchAnswer, BatchBody, JobOptions};
use tidegate_core::v1::queue::{
    LimitDetails, PolicyChange, PurgeAnswer, PurgeBody, QueueLanes, QueuePolicy, QueueView,
    Respawn, RespawnAnswer, SetLanesBody,
};
use tidegate_core::v1::rate::RateChange;
use tidegate_core::v1::relay::{RelayConfig, RelayDetails};
use tidegate_core::v1::schedule::{Schedule, ScheduleDetails, ScheduleRuns};
use tidegate_core::v1::workers::WorkerView;
use tidegate_core::v1::{DeleteAnswer, Page};
use utoipa::OpenApi;

type Examples = BTreeMap<String, Vec<Value>>;

fn examples(text: &str) -> Examples {
    serde_json::from_str(text).unwrap()
}

fn requests() -> Examples {
    examples(include_str!("schemas/requests.json"))
}

fn answers() -> Examples {
    examples(include_str!("schemas/answers.json"))
}

/// Compiled schemas by name.
struct Validator {
    document: Value,
    schemas: Schemas,
    indices: BTreeMap<String, SchemaIndex>,
}

impl Validator {
    fn new() -> Self {
        const URL: &str = "http://tidegate.invalid/openapi.json";
        let document = serde_json::to_value(ApiSchemas::openapi()).unwrap();
        let mut compiler = Compiler::new();
        compiler.add_resource(URL, document.clone()).unwrap();
        let mut schemas = Schemas::new();
        let names = document["components"]["schemas"]
            .as_object()
            .unwrap()
            .keys();
        let indices = names
            .map(|name| {
                let url = format!("{URL}#/components/schemas/{name}");
                let index = compiler.compile(&url, &mut schemas);
                (
                    name.clone(),
                    index.unwrap_or_else(|error| panic!("{name}: {error:#}")),
                )
            })
            .collect();
        Self {
            document,
            schemas,
            indices,
        }
    }

    fn check(&self, name: &str, value: &Value) -> Result<(), String> {
        let index = *self
            .indices
            .get(name)
            .unwrap_or_else(|| panic!("no schema for {name}"));
        let checked = self.schemas.validate(value, index);
        checked.map_err(|error| format!("{error:#}"))
    }

    fn schema(&self, name: &str) -> &Value {
        &self.document["components"]["schemas"][name]
    }
}

/// Reads a request as a server does, and returns the JSON that a client would send for it.
fn read<T: CheckedRequest + Serialize>(value: &Value) -> Result<Value, String> {
    let limits = ConfigurableLimits::default();
    let read = read_body::<T>(value.to_string().as_bytes(), &limits);
    let request = read.map_err(|error| error.to_string())?;
    Ok(serde_json::from_str(&serde_json::to_string(&request).unwrap()).unwrap())
}

fn read_request(name: &str, value: &Value) -> Result<Value, String> {
    match name {
        "ActBody" => read::<ActBody>(value),
        "AckBody" => read::<AckBody>(value),
        "BatchBody" => read::<BatchBody>(value),
        "JobChange" => read::<JobChange>(value),
        "CreateKeyBody" => read::<CreateKeyBody>(value),
        "FailBody" => read::<FailBody>(value),
        "JobOptions" => read::<JobOptions>(value),
        "PolicyChange" => read::<PolicyChange>(value),
        "Respawn" => read::<Respawn>(value),
        "RateChange" => read::<RateChange>(value),
        "PurgeBody" => read::<PurgeBody>(value),
        "SetLanesBody" => read::<SetLanesBody>(value),
        "SettleBody" => read::<SettleBody>(value),
        "RelayConfig" => read::<RelayConfig>(value),
        "ReleaseBody" => read::<ReleaseBody>(value),
        "ReserveBody" => read::<ReserveBody>(value),
        "Schedule" => read::<Schedule>(value),
        "TouchBody" => read::<TouchBody>(value),
        _ => panic!("the request {name} is not read here"),
    }
}

/// Reads an answer as a client does, and writes it again.
fn rewrite<T: DeserializeOwned + Serialize>(value: &Value) -> Value {
    let answer: T =
        serde_json::from_str(&value.to_string()).unwrap_or_else(|error| panic!("{value}: {error}"));
    serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap()
}

fn rewrite_answer(name: &str, value: &Value) -> Value {
    match name {
        "AckAnswer" | "FailAnswer" | "ReleaseAnswer" | "TouchAnswer" => {
            rewrite::<SettleAnswer>(value)
        }
        "ActAnswer" => rewrite::<ActAnswer>(value),
        "JobListPage" => rewrite::<Page<JobDetails>>(value),
        "JobExplanation" => rewrite::<JobExplanation>(value),
        "WorkerListPage" => rewrite::<Page<WorkerView>>(value),
        "DeleteAnswer" => rewrite::<DeleteAnswer>(value),
        "BatchAnswer" => rewrite::<BatchAnswer>(value),
        "CancelAnswer" => rewrite::<CancelAnswer>(value),
        "ChangedJob" => rewrite::<ChangedJob>(value),
        "CreatedKey" => rewrite::<CreatedKey>(value),
        "JobDetails" => rewrite::<JobDetails>(value),
        "RespawnAnswer" => rewrite::<RespawnAnswer>(value),
        "KeyPage" => rewrite::<KeyPage>(value),
        "LanesListPage" => rewrite::<Page<QueueLanes>>(value),
        "NamespaceDetails" => rewrite::<NamespaceDetails>(value),
        "LimitDetails" => rewrite::<LimitDetails>(value),
        "LimitListPage" => rewrite::<Page<LimitDetails>>(value),
        "PolicyListPage" => rewrite::<Page<QueuePolicy>>(value),
        "QueueLanes" => rewrite::<QueueLanes>(value),
        "Problem" => rewrite::<Problem>(value),
        "PromotedJob" => rewrite::<PromotedJob>(value),
        "PurgeAnswer" => rewrite::<PurgeAnswer>(value),
        "QueueListPage" => rewrite::<Page<QueueView>>(value),
        "Policy" => rewrite::<Policy>(value),
        "RelayDetails" => rewrite::<RelayDetails>(value),
        "RelayListPage" => rewrite::<Page<RelayDetails>>(value),
        "ReserveAnswer" => rewrite::<ReserveAnswer>(value),
        "RevokedKey" => rewrite::<RevokedKey>(value),
        "ScheduleDetails" => rewrite::<ScheduleDetails>(value),
        "ScheduleListPage" => rewrite::<Page<ScheduleDetails>>(value),
        "ScheduleRuns" => rewrite::<ScheduleRuns>(value),
        _ => panic!("the answer {name} is not read here"),
    }
}

#[test]
fn requests_are_accepted_by_their_schema_and_by_the_server() {
    let validator = Validator::new();
    for (name, values) in requests() {
        for value in values {
            validator
                .check(&name, &value)
                .unwrap_or_else(|error| panic!("{name}: {value}: {error}"));
            let written = read_request(&name, &value)
                .unwrap_or_else(|error| panic!("{name}: {value}: {error}"));
            validator
                .check(&name, &written)
                .unwrap_or_else(|error| panic!("{name}: {written}: {error}"));
            assert_eq!(read_request(&name, &written), Ok(written));
        }
    }
}

#[test]
fn invalid_requests_are_rejected_by_their_schema_and_by_the_server() {
    let validator = Validator::new();
    for (name, values) in examples(include_str!("schemas/invalid_requests.json")) {
        for value in values {
            assert!(
                validator.check(&name, &value).is_err(),
                "{name}: the schema accepts {value}"
            );
            assert!(
                read_request(&name, &value).is_err(),
                "{name}: the server accepts {value}"
            );
        }
    }
}

#[test]
fn unknown_fields_of_requests_are_rejected_everywhere() {
    let validator = Validator::new();
    for (name, values) in requests() {
        for value in values {
            for changed in with_unknown_fields(&value) {
                assert!(
                    validator.check(&name, &changed).is_err(),
                    "{name}: the schema accepts {changed}"
                );
                assert!(
                    read_request(&name, &changed).is_err(),
                    "{name}: the server accepts {changed}"
                );
            }
        }
    }
}

/// The value once for each object in it, with a field more in that object. Payloads and attributes may have any field.
fn with_unknown_fields(value: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    match value {
        Value::Object(fields) => {
            let mut more = fields.clone();
            more.insert("unknown_field".to_owned(), json!(1));
            found.push(Value::Object(more));
            for (name, inner) in fields {
                if ["payload", "attributes"].contains(&name.as_str()) {
                    continue;
                }
                for changed in with_unknown_fields(inner) {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), changed);
                    found.push(Value::Object(fields));
                }
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                for changed in with_unknown_fields(inner) {
                    let mut items = items.clone();
                    items[index] = changed;
                    found.push(Value::Array(items));
                }
            }
        }
        _ => {}
    }
    found
}

#[test]
fn answers_are_accepted_by_their_schema_and_by_clients() {
    let validator = Validator::new();
    for (name, values) in answers() {
        for value in values {
            validator
                .check(&name, &value)
                .unwrap_or_else(|error| panic!("{name}: {value}: {error}"));
            assert_eq!(rewrite_answer(&name, &value), value, "{name}");
        }
    }
}

#[test]
fn clients_ignore_fields_of_answers_that_they_do_not_know() {
    let validator = Validator::new();
    for (name, values) in answers() {
        for mut value in values {
            let known = value.clone();
            value["added_later"] = json!({"any": "value"});
            assert_eq!(rewrite_answer(&name, &value), known, "{name}");
            validator
                .check(&name, &value)
                .unwrap_or_else(|error| panic!("{name}: {value}: {error}"));
        }
    }
}

#[test]
fn every_request_and_answer_has_a_schema_and_examples() {
    let validator = Validator::new();
    let names: BTreeSet<&str> = validator.indices.keys().map(String::as_str).collect();
    let (requests, answers) = (requests(), answers());
    let with_examples: BTreeSet<&str> = requests
        .keys()
        .chain(answers.keys())
        .map(String::as_str)
        .collect();
    let found = types_with_schemas();
    assert!(found.len() > 50, "{found:?}");
    // Each settle call has a schema with its own of the outcomes. The others stand in the schemas of their arrays.
    let inlined = ["Outcome", "AckItem", "QueueChoice"];
    for name in found
        .iter()
        .filter(|name| !inlined.contains(&name.as_str()))
    {
        assert!(names.contains(name.as_str()), "{name} is not in ApiSchemas");
        let needs_example = ["Body", "Answer", "Page"]
            .iter()
            .any(|end| name.ends_with(end));
        assert!(
            !needs_example || with_examples.contains(name.as_str()),
            "{name} has no example"
        );
    }
    let invalid = examples(include_str!("schemas/invalid_requests.json"));
    assert!(
        requests.keys().eq(invalid.keys()),
        "each request has invalid examples"
    );
}

/// The public types that derive a schema, by name.
fn types_with_schemas() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            let parts = text.split("derive(utoipa::ToSchema").skip(1);
            found.extend(parts.filter_map(type_with_schema));
        }
    }
    found
}

/// The name of the public type behind a `derive` with a schema.
fn type_with_schema(text: &str) -> Option<String> {
    let item = text.lines().find(|line| line.starts_with("pub "))?;
    let name = item
        .strip_prefix("pub struct ")
        .or(item.strip_prefix("pub enum "))?;
    Some(name.split(['(', ' ', '<', '{']).next()?.to_owned())
}

#[test]
fn an_item_of_a_batch_has_the_options_of_a_publish() {
    let validator = Validator::new();
    let options = validator.schema("JobOptions")["properties"]
        .as_object()
        .unwrap();
    let item = validator.schema("BatchItem")["properties"]
        .as_object()
        .unwrap();
    assert_eq!(options.len(), 15);
    for (name, schema) in options {
        assert_eq!(
            item.get(name).map(without_descriptions),
            Some(without_descriptions(schema)),
            "{name}"
        );
    }
    assert_eq!(item.len(), options.len() + 4);
}

fn without_descriptions(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| *name != "description");
            fields
                .map(|(name, value)| (name.clone(), without_descriptions(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(without_descriptions).collect(),
        other => other.clone(),
    }
}
