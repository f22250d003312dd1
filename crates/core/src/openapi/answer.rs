//! Schemas that many fields have.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::limits::TIME_MS_MAX;

/// Gives a type a schema with a name.
macro_rules! schema_of {
    ($type:ty, $name:literal, $schema:expr) => {
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                $schema
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                $name.into()
            }
        }
    };
}

pub(super) use schema_of;

/// A text of 1 to `bytes_max` bytes. JSON Schema counts characters, of which there are never more than bytes.
pub(crate) fn text_schema(description: &str, bytes_max: usize) -> ObjectBuilder {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(bytes_max));
    match description {
        "" => schema,
        text => schema.description(Some(text)),
    }
}

/// The schema of an instant in a request, which may have any of the accepted forms.
#[derive(Debug)]
pub(crate) struct RequestTimestamp;

/// The schema of a duration in an answer.
#[derive(Debug)]
pub(crate) struct AnswerDuration;

schema_of!(AnswerDuration, "AnswerDuration", {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(0))
        .maximum(Some(TIME_MS_MAX))
        .description(Some("A duration in ms."))
        .into()
});
