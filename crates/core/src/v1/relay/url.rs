//! The URLs of servers.

use std::net::IpAddr;

use crate::limits::RELAY_TEXT_BYTES_MAX;
use crate::v1::problem::InvalidRequest;

/// The parts of a URL that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UrlParts<'a> {
    /// Empty if there is none.
    pub(super) scheme: &'a str,
    /// The part before `@`: a user, and possibly a password.
    pub(super) user: Option<&'a str>,
    /// Without brackets.
    pub(super) host: &'a str,
}

impl<'a> UrlParts<'a> {
    /// The parts; `None` if the text is not a URL with a host.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        // A backslash is a slash for some parsers.
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte);
        if !text.bytes().all(is_allowed) {
            return None;
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let authority = &rest[..end];
        let (user, server) = match authority.rsplit_once('@') {
            Some((user, server)) => (Some(user), server),
            None => (None, authority),
        };
        let (host, port) = match server.strip_prefix('[') {
            Some(address) => {
                let (address, rest) = address.split_once(']')?;
                (address, rest)
            }
            None => server.split_at(server.find(':').unwrap_or(server.len())),
        };
        let is_port = match port.strip_prefix(':') {
            Some(port) => port.parse::<u16>().is_ok(),
            None => port.is_empty(),
        };
        (is_port && !host.is_empty() && !host.contains('%')).then_some(Self { scheme, user, host })
    }

    /// The address, if the host is one.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

/// Checks the field `url`: a URL with one of these schemes, such as the example.
pub(super) fn check_url(url: &str, schemes: &[&str], example: &str) -> Result<(), InvalidRequest> {
    let problem = |detail| Err(InvalidRequest::of_field("url", detail));
    if url.is_empty() {
        return problem(format!("the url is missing; write one like {example}"));
    }
    if url.len() > RELAY_TEXT_BYTES_MAX {
        return problem(format!(
            "the url must have at most {RELAY_TEXT_BYTES_MAX} bytes"
        ));
    }
    let has_scheme = |parts: &UrlParts<'_>| {
        schemes
            .iter()
            .any(|it| it.eq_ignore_ascii_case(parts.scheme))
    };
    match UrlParts::parse(url) {
        Some(parts) if has_scheme(&parts) => Ok(()),
        _ => problem(format!("the url must be like {example}")),
    }
}

/// Checks the field `url` of an HTTP server: no query and no fragment, since paths are put behind it.
pub(super) fn check_server_url(url: &str, example: &str) -> Result<(), InvalidRequest> {
    check_url(url, &["http", "https"], example)?;
    if url.contains(['?', '#']) {
        let detail = format!("the url must be like {example}, without a query and a fragment");
        return Err(InvalidRequest::of_field("url", detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_url_are_found() {
        for (text, scheme, user, host) in [
            ("https://a.example/x@y?z", "https", None, "a.example"),
            ("amqp://u:p@a:5672/v", "amqp", Some("u:p"), "a"),
            ("nats://t@a", "nats", Some("t"), "a"),
            ("https://b@a@c", "https", Some("b@a"), "c"),
            ("http://[::1]:80/", "http", None, "::1"),
            ("a:4222", "", None, "a"),
        ] {
            let expected = UrlParts { scheme, user, host };
            assert_eq!(UrlParts::parse(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "https://",
            "https://:80",
            "https://a b",
            "https://a:99999",
            "https://a\\@b",
            "https://[::1",
            "https://[::1]x",
            "https://ä",
            "https://a\n",
        ] {
            assert_eq!(UrlParts::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_url_that_is_not_valid_is_not_repeated() {
        let example = "https://example.com";
        assert!(check_url("HTTPS://a", &["https"], example).is_ok());
        for url in ["", "hunter2", "http://hunter2", "https://hunter2:x"] {
            let error = check_url(url, &["https"], example).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("url"));
            assert!(!error.detail.contains("hunter2") && error.detail.contains(example));
        }
    }
}
