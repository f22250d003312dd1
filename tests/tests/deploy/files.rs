//! Files of the repository.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Returns a path of the repository.
pub(crate) fn path(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.expect("the repository").join(name)
}

/// Returns the text of a file.
///
/// # Panics
/// If there is no such file.
pub(crate) fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the content of a YAML file, with its anchors and merges resolved.
///
/// # Panics
/// If the file is not valid.
pub(crate) fn yaml(name: &str) -> Value {
    let parsed = serde_norway::from_str(&read(name));
    let mut value: serde_norway::Value = parsed.unwrap_or_else(|error| panic!("{name}: {error}"));
    value.apply_merge().unwrap();
    serde_json::to_value(value).unwrap()
}

/// Returns the text with each `from` replaced by its `to`.
///
/// # Panics
/// If a `from` is not in the text.
pub(crate) fn replaced(text: &str, pairs: &[(String, String)]) -> String {
    pairs.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from} is not in:\n{text}");
        text.replace(from, to)
    })
}
