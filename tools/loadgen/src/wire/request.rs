//! The common parts of all requests of a run: address, namespace and credential.

use std::fmt::Display;
use std::io::Write;

use super::protocol::Wire;
use crate::server::TargetServer;

/// Builds requests to one server.
#[derive(Debug, Clone)]
pub(crate) struct RequestBuilder {
    pub(crate) wire: Wire,
    /// The path up to the part that differs.
    pub(super) prefix: String,
    /// The part after the path: host and credential.
    pub(super) headers: String,
}

impl RequestBuilder {
    pub(crate) fn new(server: &TargetServer) -> Self {
        let TargetServer {
            wire,
            namespace,
            credential,
            address,
            ..
        } = server;
        let (root, authorization) = match wire {
            Wire::Lmstfy => ("api", format!("X-Token: {credential}")),
            Wire::Native => ("v1", format!("Authorization: Bearer {credential}")),
        };
        Self {
            wire: *wire,
            prefix: format!("/{root}/{namespace}/"),
            headers: format!(" HTTP/1.1\r\nHost: {address}\r\n{authorization}\r\n"),
        }
    }

    /// Appends the request line and the headers that every request has. `rest` is the path behind the namespace.
    pub(crate) fn write_head(&self, out: &mut Vec<u8>, method: &str, rest: impl Display) {
        // Writing to a vector cannot fail.
        let _ = write!(out, "{method} {}{rest}{}", self.prefix, self.headers);
    }

    /// Appends a request without a body.
    pub(crate) fn write_without_body(&self, out: &mut Vec<u8>, method: &str, rest: impl Display) {
        self.write_head(out, method, rest);
        out.extend_from_slice(b"\r\n");
    }
}
