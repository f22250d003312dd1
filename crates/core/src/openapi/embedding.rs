//! The schemas of structures that embed the options of a publish.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::v1::publish::{BatchItem, JobContent, JobOptions};
use crate::v1::schedule::ScheduleJob;

/// A schema with fields of both structures. Some are described in other words.
fn object(description: &str, fields: &[&str], described: &[(&str, &str)]) -> RefOr<Schema> {
    let mut object = ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(description))
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    for part in [JobContent::schema(), JobOptions::schema()] {
        let RefOr::T(Schema::Object(part)) = part else {
            continue;
        };
        for (name, mut schema) in part.properties {
            if !fields.contains(&name.as_str()) {
                continue;
            }
            if let Some((_, text)) = described.iter().find(|(other, _)| *other == name) {
                describe(&mut schema, text);
            }
            object = object.property(name, schema);
        }
    }
    object.into()
}

/// Describes a field that is a reference, or one or nothing.
fn describe(schema: &mut RefOr<Schema>, text: &str) {
    match schema {
        RefOr::Ref(reference) => text.clone_into(&mut reference.description),
        RefOr::T(Schema::OneOf(one_of)) => {
            let mut items = one_of.items.iter_mut();
            if let Some(item) = items.find(|item| matches!(item, RefOr::Ref(_))) {
                describe(item, text);
            }
        }
        RefOr::T(_) => {}
    }
}

/// Gives such a structure its schema.
macro_rules! schema_of_job {
    ($type:ty, $description:literal, $described:expr) => {
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                object($description, <$type>::FIELDS, &$described)
            }
        }

        impl ToSchema for $type {
            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                JobContent::schemas(schemas);
                JobOptions::schemas(schemas);
            }
        }
    };
}

schema_of_job!(
    BatchItem,
    "A job of a batch: a payload, attributes, and the options of a publish.",
    [
        (
            "idempotency_key",
            "Makes it safe to repeat the publish of this job: a repetition returns the first job.",
        ),
        (
            "durability",
            "The durability that the jobs need before the batch is answered. By default as set for the namespace.",
        ),
    ]
);

schema_of_job!(
    ScheduleJob,
    "The job that a schedule publishes: payload, attributes and options as of a publish. Jobs also have the attributes\n`tidegate-schedule` (the name of the schedule) and `tidegate-tick-ms` (the time of the tick, in ms since 1970).",
    [
        (
            "payload",
            "The payload, if it is JSON. Excludes `payload_base64`. At most 16 KiB.",
        ),
        (
            "attributes",
            "Names and values that travel with the job. At most 30: the schedule adds two.",
        ),
        ("delay", "How long the job is delayed after the tick."),
        (
            "retain",
            "How long the finished job stays. By default as in the policy of the queue.",
        ),
    ]
);
