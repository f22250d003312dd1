//! The answers of successes, and the problem documents by status.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_core::v1::problem::{Problem, ProblemCode};
use utoipa::openapi::content::{Content, ContentBuilder};
use utoipa::openapi::response::{Response, ResponseBuilder, Responses};
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, Ref, Schema, Type};
use utoipa::openapi::{Components, HttpMethod, RefOr};

use super::examples;
use crate::v1::routes::headers::AnswerHeader;
use crate::v1::routes::{AnswerShape, BodyShape, OperationRow};

const JSON: &str = "application/json";
const ANY: &str = "*/*";

/// The problems that every operation may return.
const OF_ALL: [ProblemCode; 12] = [
    ProblemCode::InvalidParameter,
    ProblemCode::InvalidName,
    ProblemCode::KeyMissing,
    ProblemCode::KeyInvalid,
    ProblemCode::ScopeMissing,
    ProblemCode::NamespaceForbidden,
    ProblemCode::UnsupportedContentEncoding,
    ProblemCode::InternalError,
    ProblemCode::UnsupportedTransferEncoding,
    ProblemCode::StorageUnavailable,
    ProblemCode::TooManyConnections,
    ProblemCode::TimeLimitReached,
];
/// The problems of operations with a body of JSON.
const OF_JSON: [ProblemCode; 4] = [
    ProblemCode::InvalidBody,
    ProblemCode::RequestTimeout,
    ProblemCode::BodyTooLarge,
    ProblemCode::UnsupportedContentType,
];
/// The problems of operations whose body is a payload.
const OF_PAYLOADS: [ProblemCode; 3] = [
    ProblemCode::RequestTimeout,
    ProblemCode::PayloadTooLarge,
    ProblemCode::PayloadNotJson,
];

/// The answers of an operation. Problem documents are components, which are added where they are missing.
pub(super) fn of_operation(row: &OperationRow, components: &mut Components) -> Responses {
    let mut responses = Responses::new();
    for answer in row.answers {
        let response = success(answer);
        let status = answer.status.to_string();
        responses.responses.insert(status, RefOr::T(response));
    }
    for (status, codes) in problems(row) {
        let name = component_name(status, &codes);
        let described = components.responses.entry(name.clone());
        described.or_insert_with(|| RefOr::T(problem(&codes)));
        let reference = Ref::from_response_name(name);
        responses
            .responses
            .insert(status.to_string(), RefOr::Ref(reference));
    }
    responses
}

fn success(answer: &AnswerShape) -> Response {
    let mut response = ResponseBuilder::new().description(answer.description);
    response = match answer.body {
        BodyShape::Nothing => response,
        BodyShape::Json(schema) => response.content(JSON, json_content(schema)),
        BodyShape::Payload => response.content(ANY, any_content()),
    };
    response = response.header_ref(
        AnswerHeader::RequestId.name(),
        AnswerHeader::RequestId.reference(),
    );
    for header in answer.headers {
        response = response.header_ref(header.name(), header.reference());
    }
    response.build()
}

/// JSON with this schema and its example.
pub(super) fn json_content(schema: &str) -> Content {
    ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(schema)))
        .example(examples::of(schema))
        .build()
}

fn any_content() -> Content {
    Content::new(None::<RefOr<Schema>>)
}

/// The problems of an operation by status, each in the order of the list of codes.
fn problems(row: &OperationRow) -> BTreeMap<u16, Vec<ProblemCode>> {
    let of_body: &[ProblemCode] = match row.body {
        BodyShape::Nothing => &[],
        BodyShape::Json(_) => &OF_JSON,
        BodyShape::Payload => &OF_PAYLOADS,
    };
    let writes = row.method != HttpMethod::Get;
    let may_be = |code: ProblemCode| {
        OF_ALL.contains(&code)
            || of_body.contains(&code)
            || row.problems.contains(&code)
            || (code == ProblemCode::StorageFull && writes)
    };
    let mut by_status: BTreeMap<u16, Vec<ProblemCode>> = BTreeMap::new();
    for info in ProblemCode::ALL.iter().filter(|info| may_be(info.code)) {
        by_status.entry(info.status).or_default().push(info.code);
    }
    by_status
}

/// The name of the component for the problems with these codes, which have one status.
fn component_name(status: u16, codes: &[ProblemCode]) -> String {
    let codes: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    format!("{status}.{}", codes.join("."))
}

/// The answer with a problem document that has one of these codes.
fn problem(codes: &[ProblemCode]) -> Response {
    let lines: Vec<String> = codes
        .iter()
        .map(|code| format!("- `{code}`: {}", code.info().description))
        .collect();
    let mut response = ResponseBuilder::new()
        .description(lines.join("\n"))
        .header_ref(
            AnswerHeader::RequestId.name(),
            AnswerHeader::RequestId.reference(),
        );
    let content = ContentBuilder::new()
        .schema(Some(one_of_codes(codes)))
        .example(codes.first().map(|code| example(*code)))
        .build();
    response = response.content(Problem::CONTENT_TYPE, content);
    if codes.iter().any(|code| code.has_retry_after()) {
        let header = AnswerHeader::RetryAfter;
        response = response.header_ref(header.name(), header.reference());
    }
    if codes.iter().any(|code| code.status() == 401) {
        let header = AnswerHeader::Challenge;
        response = response.header_ref(header.name(), header.reference());
    }
    response.build()
}

/// A problem document whose code is one of these.
fn one_of_codes(codes: &[ProblemCode]) -> RefOr<Schema> {
    let names = codes.iter().map(|code| code.as_str());
    let code = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(names));
    let with_code = ObjectBuilder::new().property("code", code);
    AllOfBuilder::new()
        .item(Ref::from_schema_name("Problem"))
        .item(with_code)
        .into()
}

fn example(code: ProblemCode) -> Value {
    let info = code.info();
    let problem = Problem::new(code, info.description, "01KAJ3S1V9GJY9W6ZP2C7R4T8B");
    serde_json::to_value(problem).unwrap_or_default()
}
