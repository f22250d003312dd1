//! HTTP requests.

use std::fmt::Write;

use serde::Serialize;

use crate::history::Wire;

/// A request, without namespace and credential.
pub(crate) struct HttpRequest {
    pub(crate) method: &'static str,
    /// The path after the namespace, with the query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpRequest {
    /// Adds namespace and credential.
    pub(crate) fn sent_to(mut self, wire: Wire, namespace: &str, credential: &str) -> Self {
        let (root, header) = match wire {
            Wire::Lmstfy => ("api", ("X-Token".to_owned(), credential.to_owned())),
            Wire::Native => {
                let bearer = format!("Bearer {credential}");
                ("v1", ("Authorization".to_owned(), bearer))
            }
        };
        self.path = format!("/{root}/{namespace}{}", self.path);
        self.headers.push(header);
        self
    }

    pub(crate) fn json(method: &'static str, path: String, body: &impl Serialize) -> Self {
        Self {
            method,
            path,
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: serde_json::to_vec(body).expect("requests are JSON"),
        }
    }

    pub(crate) const fn without_body(method: &'static str, path: String) -> Self {
        Self {
            method,
            path,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }
}

/// Appends a parameter to the query of a path.
pub(super) fn add_parameter(path: &mut String, name: &str, value: &str) {
    let separator = if path.contains('?') { '&' } else { '?' };
    // Writing to a string cannot fail.
    let _ = write!(path, "{separator}{name}={}", escaped(value));
}

/// Escapes all bytes of a text that may have a meaning in a URL.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_escaped() {
        let mut path = "/queues/q/jobs/-".to_owned();
        add_parameter(&mut path, "running", "ask");
        add_parameter(&mut path, "key", "a/ü");
        assert_eq!(path, "/queues/q/jobs/-?running=ask&key=a%2F%C3%BC");
    }
}
