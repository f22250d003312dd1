//! The addresses of pages. Names of pools and queues and ids of jobs have no characters that need an escape.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tidegate_core::{JobId, QueueKey};
use tidegate_store::NamespacedName;

pub(super) const OVERVIEW: &str = "/ui";
pub(super) const RELAYS: &str = "/ui/relays";
pub(super) const KEYS: &str = "/ui/keys";

pub(super) fn queues(pool: &str) -> String {
    format!("/ui/{pool}/queues")
}

pub(super) fn schedules(pool: &str) -> String {
    format!("/ui/{pool}/schedules")
}

pub(super) fn schedule(pool: &str, key: &NamespacedName) -> String {
    let name = utf8_percent_encode(&key.name, NON_ALPHANUMERIC);
    format!("/ui/{pool}/schedules/{}/{name}", key.namespace)
}

pub(super) fn relay(key: &NamespacedName) -> String {
    let name = utf8_percent_encode(&key.name, NON_ALPHANUMERIC);
    format!("{RELAYS}/{}/{name}", key.namespace)
}

pub(super) fn namespaces(pool: &str) -> String {
    format!("/ui/{pool}/namespaces")
}

pub(super) fn workers(pool: &str) -> String {
    format!("/ui/{pool}/workers")
}

pub(super) fn system(pool: &str) -> String {
    format!("/ui/{pool}/system")
}

pub(super) fn queue(pool: &str, queue: &QueueKey) -> String {
    format!("/ui/{pool}/queues/{queue}")
}

pub(super) fn jobs(pool: &str, key: &QueueKey) -> String {
    format!("{}/jobs", queue(pool, key))
}

pub(super) fn act(pool: &str, key: &QueueKey) -> String {
    format!("{}/act", queue(pool, key))
}

pub(super) fn dead(pool: &str, key: &QueueKey) -> String {
    format!("{}/dead", queue(pool, key))
}

pub(super) fn job(pool: &str, key: &QueueKey, id: JobId) -> String {
    format!("{}/jobs/{id}", queue(pool, key))
}

/// An address with a query, or with more of it.
pub(super) fn with_query<'a>(
    path: &str,
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut text = path.to_owned();
    for (name, value) in pairs {
        text.push(if text.contains('?') { '&' } else { '?' });
        text.push_str(name);
        text.push('=');
        text.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_query_are_escaped() {
        let text = with_query("/ui", [("a", "x&y=<é>"), ("b", "")]);
        assert_eq!(text, "/ui?a=x%26y%3D%3C%C3%A9%3E&b=");
        assert_eq!(with_query("/ui", []), "/ui");
        assert_eq!(with_query("/ui?a=1", [("b", "2")]), "/ui?a=1&b=2");
    }
}
