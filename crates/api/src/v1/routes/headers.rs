//! Headers of answers.

use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Ref, Schema, Type};
use utoipa::openapi::{Components, RefOr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::v1) enum AnswerHeader {
    RequestId,
    RetryAfter,
    Challenge,
    ETag,
    Replayed,
    NoSniff,
    Sandbox,
    JobId,
    Queue,
    Lease,
    LeaseUntil,
    Attempt,
    Key,
    TraceParent,
}

/// The description of a header.
struct HeaderRow {
    header: AnswerHeader,
    name: &'static str,
    /// Whether each answer that lists it has it.
    is_required: bool,
    schema: fn() -> RefOr<Schema>,
    description: &'static str,
}

fn text() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).into()
}

fn number() -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(Type::Integer);
    schema.minimum(Some(0)).into()
}

fn request_id() -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(Type::String);
    schema.pattern(Some("^[0-9A-HJKMNP-TV-Z]{26}$")).into()
}

fn etag() -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(Type::String);
    schema.pattern(Some("^\"[^\"]+\"$")).into()
}

/// A text with only one value.
fn only(value: &'static str) -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(Type::String);
    schema.enum_values(Some([value])).into()
}

fn of_schema(name: &'static str) -> RefOr<Schema> {
    Ref::from_schema_name(name).into()
}

const fn row(
    header: AnswerHeader,
    name: &'static str,
    schema: fn() -> RefOr<Schema>,
    description: &'static str,
) -> HeaderRow {
    HeaderRow {
        header,
        name,
        is_required: true,
        schema,
        description,
    }
}

impl HeaderRow {
    const fn optional(mut self) -> Self {
        self.is_required = false;
        self
    }
}

/// The table, in the order of [`AnswerHeader`].
const TABLE: [HeaderRow; 14] = [
    row(
        AnswerHeader::RequestId,
        "X-Request-Id",
        request_id,
        "The id of the request, as in the logs of the server and in `instance` of problems.",
    ),
    row(
        AnswerHeader::RetryAfter,
        "Retry-After",
        number,
        "After how many seconds the request may be repeated.",
    ),
    row(
        AnswerHeader::Challenge,
        "WWW-Authenticate",
        || only("Bearer"),
        "How to authenticate.",
    ),
    row(
        AnswerHeader::ETag,
        "ETag",
        etag,
        "The version of the policy, limit, relay or schedule, for `If-Match`.",
    ),
    row(
        AnswerHeader::Replayed,
        "Tidegate-Replayed",
        || only("true"),
        "The answer repeats the answer to an earlier publish with the same `Idempotency-Key`.",
    )
    .optional(),
    row(
        AnswerHeader::NoSniff,
        "X-Content-Type-Options",
        || only("nosniff"),
        "A browser must not guess another content type.",
    ),
    row(
        AnswerHeader::Sandbox,
        "Content-Security-Policy",
        || only("sandbox"),
        "A browser must not run the payload as a page of this server.",
    ),
    row(
        AnswerHeader::JobId,
        "Tidegate-Job-Id",
        || of_schema("JobId"),
        "`raw`: the id of the job.",
    )
    .optional(),
    row(
        AnswerHeader::Queue,
        "Tidegate-Queue",
        || of_schema("QueueName"),
        "`raw`: the queue of the job.",
    )
    .optional(),
    row(
        AnswerHeader::Lease,
        "Tidegate-Lease",
        || of_schema("Lease"),
        "`raw`: the lease of the job.",
    )
    .optional(),
    row(
        AnswerHeader::LeaseUntil,
        "Tidegate-Lease-Until",
        || of_schema("AnswerTimestamp"),
        "`raw`: when the lease expires.",
    )
    .optional(),
    row(
        AnswerHeader::Attempt,
        "Tidegate-Attempt",
        number,
        "`raw`: the number of this attempt.",
    )
    .optional(),
    row(
        AnswerHeader::Key,
        "Tidegate-Key",
        text,
        "`raw`: the key of the job, if it has one.",
    )
    .optional(),
    row(
        AnswerHeader::TraceParent,
        "Traceparent",
        text,
        "`raw`: the span of this delivery, if it is traced.",
    )
    .optional(),
];

impl AnswerHeader {
    pub(in crate::v1) const fn name(self) -> &'static str {
        TABLE[self as usize].name
    }

    /// The component with its description.
    pub(in crate::v1) fn reference(self) -> Ref {
        Ref::new(format!("#/components/headers/{}", self.name()))
    }
}

/// Adds all headers to the components.
pub(in crate::v1) fn add_to(components: &mut Components) {
    for row in &TABLE {
        let header: Header = HeaderBuilder::new()
            .schema(Some((row.schema)()))
            .description(Some(row.description))
            .build();
        components
            .headers
            .insert(row.header.name().to_owned(), RefOr::T(header));
    }
}

/// The names of the headers that are required where they are listed. The type of utoipa has no field for that.
pub(in crate::v1) fn required() -> impl Iterator<Item = &'static str> {
    let required = TABLE.iter().filter(|row| row.is_required);
    required.map(|row| row.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_headers() {
        for (position, row) in TABLE.iter().enumerate() {
            assert_eq!(row.header as usize, position, "{}", row.name);
        }
    }
}
