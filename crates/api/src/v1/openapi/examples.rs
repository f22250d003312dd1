//! Examples of requests and answers, by the name of their schema.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

static EXAMPLES: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("examples.json")).expect("the examples are JSON by schema")
});

/// The example of a schema.
pub(super) fn of(schema: &str) -> Option<Value> {
    EXAMPLES.get(schema).cloned()
}
