//! The names of relays that are set through the API.

/// Between the namespace and the name of a relay that is set through the API. Names in settings do not have it.
const SEPARATOR: char = '/';

/// The name in this process.
pub(super) fn full_name(namespace: &str, name: &str) -> String {
    format!("{namespace}{SEPARATOR}{name}")
}

/// The namespace; `None` for a relay of the settings.
pub(super) fn namespace_of(full_name: &str) -> Option<&str> {
    full_name
        .split_once(SEPARATOR)
        .map(|(namespace, _)| namespace)
}
