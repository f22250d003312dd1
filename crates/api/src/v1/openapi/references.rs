//! References inside of the document.

use std::collections::BTreeSet;

use serde_json::Value;

const SCHEMAS: &str = "#/components/schemas/";

/// Removes the schemas that no operation needs, directly or through other schemas: the schemas of routes that are not
/// served.
pub(super) fn remove_unused_schemas(document: &mut Value) {
    let schemas = document["components"]["schemas"].take();
    let mut wanted = BTreeSet::new();
    collect(document, &mut wanted);
    let mut used = BTreeSet::new();
    while let Some(name) = wanted.pop_first() {
        collect(&schemas[name.as_str()], &mut wanted);
        used.insert(name);
        wanted.retain(|name| !used.contains(name));
    }
    let Value::Object(mut schemas) = schemas else {
        return;
    };
    schemas.retain(|name, _| used.contains(name));
    document["components"]["schemas"] = Value::Object(schemas);
}

/// Collects the names of the schemas that a value refers to.
fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            if let Some(name) = reference.and_then(|it| it.strip_prefix(SCHEMAS)) {
                names.insert(name.to_owned());
            }
            fields.values().for_each(|field| collect(field, names));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        _ => {}
    }
}
