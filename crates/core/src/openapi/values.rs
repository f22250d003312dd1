//! Schemas of values.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

use super::answer::{RequestTimestamp, schema_of, text_schema};
use crate::limits::{
    ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX, CONTENT_TYPE_BYTES_MAX, ERROR_BYTES_MAX,
    NAME_BYTES_MAX, RELAY_NETWORKS_MAX, RELAY_TEXT_BYTES_MAX, TIME_MS_MAX, TIME_TEXT_BYTES_MAX,
};
use crate::v1::relay::{SecretText, TextList};
use crate::v1::values::{
    Base64Bytes, ContentType, DurationMs, ErrorText, JobAttributes, JsonText, Timestamp,
};
use crate::{Durability, NamespaceGrant};

schema_of!(ErrorText, "ErrorText", {
    let description =
        format!("The error, for people. Only the first {ERROR_BYTES_MAX} bytes are kept.");
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .into()
});

schema_of!(Base64Bytes, "Base64", {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .content_encoding("base64")
        .pattern(Some(
            "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
        ))
        .description(Some(
            "Bytes as base64 of RFC 4648, section 4, with padding.",
        ))
        .into()
});

schema_of!(DurationMs, "Duration", {
    let number = |unit: &str| format!(r"(\d+(\.\d{{1,9}})?{unit})?");
    let numbers = |units: &[&str]| units.iter().map(|unit| number(unit)).collect::<String>();
    let pattern = format!(
        "^({}|[Pp]{}([Tt]{})?)$",
        numbers(&["d", "h", "m", "s", "ms"]),
        numbers(&["[Ww]", "[Dd]"]),
        numbers(&["[Hh]", "[Mm]", "[Ss]"]),
    );
    let description = "A duration: a text such as `1500ms`, `90s`, `1.5h`, `1h30m` or `3d`, or ISO 8601 such as `PT5M`.";
    text_schema(description, TIME_TEXT_BYTES_MAX)
        .pattern(Some(pattern))
        .into()
});

schema_of!(JsonText, "Json", {
    ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some("Any JSON value."))
        .into()
});

schema_of!(JobAttributes, "Attributes", {
    let value = ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(ATTRIBUTE_VALUE_BYTES_MAX));
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(RefOr::T(Schema::from(value))))
        .max_properties(Some(ATTRIBUTES_MAX))
        .description(Some(
            "Names and values that travel with a job, apart from its payload. At most 8 KiB as headers.",
        ))
        .into()
});

schema_of!(ContentType, "ContentType", {
    text_schema("The content type of a payload.", CONTENT_TYPE_BYTES_MAX)
        .pattern(Some(
            "^[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+ *(;[ -~]*)?$",
        ))
        .into()
});

// Answers have only one of the forms that requests may have.
schema_of!(Timestamp, "AnswerTimestamp", {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .pattern(Some(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$"))
        .description(Some("An instant: RFC 3339 in UTC with three digits."))
        .into()
});

schema_of!(RequestTimestamp, "Timestamp", {
    let pattern = r"^(\d+|\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2}))$";
    integer_or_text(
        "An instant: RFC 3339 with an offset, or an integer in ms since 1970.",
        (0, TIME_MS_MAX),
        text_schema("", TIME_TEXT_BYTES_MAX).pattern(Some(pattern)),
    )
});

schema_of!(TextList, "TextList", {
    let text = || {
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.max_length(Some(RELAY_TEXT_BYTES_MAX))
    };
    let list = ArrayBuilder::new()
        .items(text())
        .max_items(Some(RELAY_NETWORKS_MAX));
    OneOfBuilder::new()
        .description(Some("Texts: a list, or one text with commas."))
        .item(list)
        .item(text())
        .into()
});

schema_of!(SecretText, "Secret", {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(RELAY_TEXT_BYTES_MAX))
        .write_only(true)
        .description(Some(
            "A secret, which no answer shows. Absent: the stored one stays. Empty: there is none.",
        ))
        .into()
});

schema_of!(NamespaceGrant, "KeyNamespace", {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^([*]|[A-Za-z0-9_-]+)$"))
        .max_length(Some(NAME_BYTES_MAX))
        .description(Some("The name of a namespace, or `*` for all."))
        .into()
});

schema_of!(Durability, "Durability", {
    let description =
        "The durability of the stored job: `memory`, `replica:N`, `fsync` or `fsync+replica:N`.";
    let pattern = "^(memory|fsync|(fsync\\+)?replica:[1-9]\\d{0,2})$";
    text_schema(description, Durability::TEXT_BYTES_MAX)
        .pattern(Some(pattern))
        .into()
});

/// The schema of a value that is an integer in this range, or a text.
fn integer_or_text(
    description: &str,
    (least, most): (u64, u64),
    text: ObjectBuilder,
) -> RefOr<Schema> {
    let integer = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(least))
        .maximum(Some(most));
    OneOfBuilder::new()
        .description(Some(description))
        .item(integer)
        .item(text)
        .into()
}
