//! Checks answers of the native API against its OpenAPI document: each has a documented status, content type, headers
//! and body.
//!
//! Clients must ignore fields that they do not know, so the schemas of answers allow others. Here they do not: a field
//! that is missing in the document fails.

use std::sync::LazyLock;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

use crate::answer::Answer;

const DOCUMENT: &str = include_str!("../../../docs/openapi.json");
/// Where the schemas are while they are compiled; nothing is read from there.
const URL: &str = "http://tidegate.invalid/answers.json";
/// The media type of payloads.
const ANY: &str = "*/*";
const PROBLEM: &str = "application/problem+json";

static API: LazyLock<ApiDocument> = LazyLock::new(ApiDocument::read);

/// Checks the answer to a request for a path below `/v1/`, which may have a query.
///
/// # Panics
/// If the document does not allow this answer.
#[track_caller]
pub fn check_native_answer(method: &str, path: &str, answer: &Answer) {
    if let Err(reason) = API.check(method, path, answer) {
        panic!(
            "{method} {path}: the OpenAPI document does not allow this answer: {reason}: {answer}"
        );
    }
}

/// The operations of the document, with compiled schemas of their answers.
struct ApiDocument {
    operations: Vec<DocumentedOperation>,
    /// The schema of all problem documents.
    problem: SchemaIndex,
    schemas: Schemas,
}

struct DocumentedOperation {
    /// The path, with names in braces.
    path: String,
    method: String,
    answers: Vec<DocumentedAnswer>,
}

struct DocumentedAnswer {
    status: u16,
    headers: Vec<DocumentedHeader>,
    /// Media types with the schemas of bodies. None if there is no body.
    content: Vec<(String, Option<SchemaIndex>)>,
}

struct DocumentedHeader {
    name: String,
    is_required: bool,
    schema: SchemaIndex,
}

impl ApiDocument {
    fn read() -> Self {
        let mut document: Value =
            serde_json::from_str(DOCUMENT).expect("docs/openapi.json is JSON");
        close(&mut document["components"]["schemas"]);
        let mut reader = DocumentReader::new(document.clone());
        let mut operations = Vec::new();
        for (path, item) in fields(&document["paths"]) {
            for (method, operation) in fields(item) {
                if method == "parameters" {
                    continue;
                }
                let base = format!("/paths/{}/{method}/responses", escaped(path));
                let answers = fields(&operation["responses"]);
                let answers = answers.map(|(status, _)| reader.answer(&base, status));
                operations.push(DocumentedOperation {
                    path: path.clone(),
                    method: method.to_uppercase(),
                    answers: answers.collect(),
                });
            }
        }
        Self {
            operations,
            problem: reader.compile("/components/schemas/Problem"),
            schemas: reader.schemas,
        }
    }

    fn check(&self, method: &str, path: &str, answer: &Answer) -> Result<(), String> {
        let path = path.split('?').next().unwrap_or_default();
        let of_path = self.operations_of(path);
        let Some(first) = of_path.first() else {
            return self.check_unmatched(answer, "route_not_found");
        };
        let Some(operation) = of_path.iter().find(|operation| operation.method == method) else {
            let allowed = answer.header("allow").unwrap_or_default();
            let mut allowed: Vec<&str> = allowed.split(", ").collect();
            let mut methods: Vec<&str> = of_path.iter().map(|it| it.method.as_str()).collect();
            allowed.sort_unstable();
            methods.sort_unstable();
            if allowed != methods {
                return Err(format!("Allow should be {methods:?} for {}", first.path));
            }
            return self.check_unmatched(answer, "method_not_allowed");
        };
        let mut answers = operation.answers.iter();
        let Some(documented) = answers.find(|documented| documented.status == answer.status) else {
            return Err("the status is not documented".to_owned());
        };
        self.check_documented(documented, answer)
    }

    /// The operations of the path that matches best: a path with more fixed segments precedes the others.
    fn operations_of(&self, path: &str) -> Vec<&DocumentedOperation> {
        let matching = self.operations.iter();
        let mut matching: Vec<(usize, &DocumentedOperation)> = matching
            .filter_map(|operation| Some((fixed_segments(&operation.path, path)?, operation)))
            .collect();
        let most = matching.iter().map(|(fixed, _)| *fixed).max();
        matching.retain(|(fixed, _)| Some(*fixed) == most);
        matching
            .into_iter()
            .map(|(_, operation)| operation)
            .collect()
    }

    /// Checks an answer that no operation documents.
    fn check_unmatched(&self, answer: &Answer, code: &str) -> Result<(), String> {
        self.check_problem(answer)?;
        match answer.json()["code"] == code {
            true => Ok(()),
            false => Err(format!("the code should be {code}")),
        }
    }

    fn check_documented(
        &self,
        documented: &DocumentedAnswer,
        answer: &Answer,
    ) -> Result<(), String> {
        for header in &documented.headers {
            match answer.header(&header.name) {
                Some(value) => self
                    .check_header(header, value)
                    .map_err(|error| format!("header {}: {error}", header.name))?,
                None if header.is_required => {
                    return Err(format!("the header {} is missing", header.name));
                }
                None => {}
            }
        }
        if documented.content.is_empty() {
            return match answer.body.is_empty() {
                true => Ok(()),
                false => Err("there should be no body".to_owned()),
            };
        }
        let kind = answer.header("content-type").unwrap_or_default();
        let of_kind = |media: &str| match media {
            ANY => !documented.content.iter().any(|(media, _)| media == kind),
            media => media == kind,
        };
        let Some((media, schema)) = documented.content.iter().find(|(media, _)| of_kind(media))
        else {
            return Err(format!("the content type {kind:?} is not documented"));
        };
        if let Some(schema) = schema {
            self.validate(*schema, &answer.json())?;
        }
        match media == PROBLEM {
            true => self.check_problem(answer),
            false => Ok(()),
        }
    }

    /// The text of a header, or the number that it is, must be valid.
    fn check_header(&self, header: &DocumentedHeader, value: &str) -> Result<(), String> {
        let text = self.validate(header.schema, &json!(value));
        match value.parse::<u64>() {
            Ok(number) => text.or_else(|_| self.validate(header.schema, &json!(number))),
            Err(_) => text,
        }
    }

    /// Checks that a problem document agrees with itself and with the rest of the answer.
    fn check_problem(&self, answer: &Answer) -> Result<(), String> {
        if answer.header("content-type") != Some(PROBLEM) {
            return Err("it should be a problem document".to_owned());
        }
        let problem = answer.json();
        self.validate(self.problem, &problem)?;
        let code = problem["code"].as_str().unwrap_or_default();
        if problem["type"] != format!("urn:tidegate:problem:{code}") {
            return Err("type and code do not agree".to_owned());
        }
        if problem["status"] != answer.status {
            return Err("the status in the body is another one".to_owned());
        }
        if answer.header("x-request-id") != problem["instance"].as_str() {
            return Err("instance should be the id of the request".to_owned());
        }
        Ok(())
    }

    fn validate(&self, schema: SchemaIndex, value: &Value) -> Result<(), String> {
        let validated = self.schemas.validate(value, schema);
        validated.map_err(|error| format!("{error:#}"))
    }
}

/// Compiles the schemas of answers.
struct DocumentReader {
    document: Value,
    compiler: Compiler,
    schemas: Schemas,
}

impl DocumentReader {
    fn new(document: Value) -> Self {
        let mut compiler = Compiler::new();
        compiler
            .add_resource(URL, document.clone())
            .expect("the document is a resource");
        Self {
            document,
            compiler,
            schemas: Schemas::new(),
        }
    }

    /// The schema at a JSON pointer.
    fn compile(&mut self, pointer: &str) -> SchemaIndex {
        // A fragment of a URL has no braces.
        let fragment = pointer.replace('{', "%7B").replace('}', "%7D");
        let compiled = self
            .compiler
            .compile(&format!("{URL}#{fragment}"), &mut self.schemas);
        compiled.unwrap_or_else(|error| panic!("{pointer}: {error:#}"))
    }

    /// The answer with this status among the answers at a JSON pointer.
    fn answer(&mut self, base: &str, status: &str) -> DocumentedAnswer {
        let pointer = self.resolve(format!("{base}/{status}"));
        let answer = self.at(&pointer);
        let names =
            |part: &Value| -> Vec<String> { fields(part).map(|(name, _)| name.clone()).collect() };
        let (headers, media_types) = (names(&answer["headers"]), names(&answer["content"]));
        let headers = headers.into_iter().map(|name| {
            let header = self.resolve(format!("{pointer}/headers/{name}"));
            DocumentedHeader {
                is_required: self.at(&header)["required"] == true,
                schema: self.compile(&format!("{header}/schema")),
                name: name.to_lowercase(),
            }
        });
        let headers = headers.collect();
        let content = media_types.into_iter().map(|media| {
            let schema = format!("{pointer}/content/{}/schema", escaped(&media));
            let schema = (!self.at(&schema).is_null()).then(|| self.compile(&schema));
            (media, schema)
        });
        DocumentedAnswer {
            content: content.collect(),
            headers,
            status: status.parse().expect("answers are by status"),
        }
    }

    fn at(&self, pointer: &str) -> Value {
        self.document.pointer(pointer).cloned().unwrap_or_default()
    }

    /// Follows the reference at this pointer.
    fn resolve(&self, pointer: String) -> String {
        let found = self.at(&pointer);
        let reference = found["$ref"].as_str();
        let target = reference.and_then(|reference| reference.strip_prefix('#'));
        target.map_or(pointer, ToOwned::to_owned)
    }
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// A name in a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The number of fixed segments of a template that matches a path; `None` if it does not match.
fn fixed_segments(template: &str, path: &str) -> Option<usize> {
    let (mut template, mut path) = (template.split('/'), path.split('/'));
    let mut fixed = 0;
    loop {
        match (template.next(), path.next()) {
            (None, None) => return Some(fixed),
            (Some(part), Some(segment)) if part == segment => fixed += 1,
            (Some(part), Some(_)) if part.starts_with('{') => {}
            _ => return None,
        }
    }
}

/// Forbids unknown fields in all schemas of objects that do not say which others they may have.
fn close(schema: &mut Value) {
    if let Value::Object(keywords) = schema {
        let is_open = keywords.contains_key("properties") && keywords.contains_key("type");
        if is_open && !keywords.contains_key("additionalProperties") {
            keywords.insert("additionalProperties".to_owned(), json!(false));
        }
        keywords.values_mut().for_each(close);
    } else if let Value::Array(items) = schema {
        items.iter_mut().for_each(close);
    }
}

#[cfg(test)]
mod tests;
