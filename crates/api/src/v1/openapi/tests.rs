use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::v1::routes::BodyShape;

/// Set to 1, it makes the test write the file instead of comparing it.
const RENEW: &str = "TIDEGATE_RENEW";

fn operations() -> impl Iterator<Item = &'static OperationRow> {
    TAGS.iter().flat_map(|(_, _, operations)| operations.iter())
}

#[test]
fn the_committed_document_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let mut document = serde_json::to_string_pretty(&json()).unwrap();
    document.push('\n');
    if std::env::var_os(RENEW).is_some_and(|value| value == "1") {
        std::fs::write(&path, &document).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let committed: Value = serde_json::from_str(&committed).unwrap_or_default();
    assert!(
        committed == json(),
        "docs/openapi.json is not the document of the code any more; renew it and commit it: \
         {RENEW}=1 cargo test -p tidegate-api --lib v1::openapi"
    );
}

#[test]
fn operations_have_unique_ids() {
    let ids: BTreeSet<&str> = operations().map(|row| row.id).collect();
    assert_eq!(ids.len(), operations().count());
}

#[test]
fn bodies_have_examples() {
    for row in operations() {
        if let BodyShape::Json(schema) = row.body {
            assert!(examples::of(schema).is_some(), "{schema}");
        }
        for answer in row.answers {
            if let BodyShape::Json(schema) = answer.body {
                assert!(examples::of(schema).is_some(), "{schema}");
            }
        }
    }
}

#[test]
fn references_lead_somewhere() {
    fn check(document: &Value, value: &Value) {
        if let Some(reference) = value["$ref"].as_str() {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        match value {
            Value::Object(fields) => fields.values().for_each(|it| check(document, it)),
            Value::Array(items) => items.iter().for_each(|it| check(document, it)),
            _ => {}
        }
    }
    let document = json();
    check(&document, &document);
    assert_eq!(document["openapi"], "3.1.0");
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert!(schemas.contains_key("RetryChange") && !schemas.contains_key("JobOptions"));
}
