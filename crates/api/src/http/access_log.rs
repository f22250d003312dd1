//! The access log: one line for each request, if it is switched on.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use tidegate_core::{API_KEY_ID_BYTES, JobId};
use tidegate_daemon::logs;
use tracing::Level;

use super::query::{Plus, unescape};

/// Replaces text that may contain a token.
const HIDDEN: &str = "***";

/// The length of a generated token, and of the id of a job.
const TOKEN_BYTES: usize = 26;
/// The length of `tg_`, an id and `_`.
const KEY_BEGIN_BYTES: usize = API_KEY_ID_BYTES + 4;
/// Far more jobs than a bucket has in its life.
const JOB_NUMBER_MAX: u64 = 1 << 32;
/// From 2015 to 2065, in ms since 1970.
const JOB_CREATED_MS: Range<u64> = 1_420_000_000_000..3_000_000_000_000;

/// The part of the line that is known when the request arrives. It never contains a token.
#[derive(Debug)]
pub(crate) struct AccessLine {
    path: Box<str>,
    query: Box<str>,
    ip: IpAddr,
}

/// The part of the line that is known once the request is answered.
#[derive(Debug)]
pub(crate) struct ResponseInfo<'a> {
    /// The name of the pool; empty if it is unknown.
    pub(crate) pool: &'a str,
    pub(crate) method: &'a Method,
    pub(crate) status: StatusCode,
    pub(crate) took: Duration,
    pub(crate) request_id: &'a str,
}

/// Emits the event. A macro, because the level of a `tracing` event is a constant.
macro_rules! event {
    ($level:expr, $line:expr, $outcome:expr) => {
        tracing::event!(
            target: logs::ACCESS,
            $level,
            pool = $outcome.pool,
            path = &*$line.path,
            query = &*$line.query,
            latency = ?$outcome.took,
            ip = %$line.ip,
            method = %$outcome.method,
            code = $outcome.status.as_u16(),
            req_id = $outcome.request_id,
        )
    };
}

impl AccessLine {
    /// Records a request; `None` if the access log is off.
    pub(crate) fn new(head: &Parts, peer: SocketAddr) -> Option<Box<Self>> {
        if !logs::access_log() {
            return None;
        }
        Some(Box::new(Self {
            path: hide_credentials(&redact_path(head.uri.path())).into(),
            query: hide_credentials(&redact_query(head.uri.query().unwrap_or_default())).into(),
            ip: peer.ip().to_canonical(),
        }))
    }

    /// Writes the line: level error for 5xx, warn for 4xx except 404, else info.
    pub(crate) fn write(&self, outcome: &ResponseInfo<'_>) {
        match outcome.status.as_u16() {
            500.. => event!(Level::ERROR, self, outcome),
            // 404 is the usual answer of an empty queue.
            400.. if outcome.status != StatusCode::NOT_FOUND => event!(Level::WARN, self, outcome),
            _ => event!(Level::INFO, self, outcome),
        }
    }
}

/// The path, with everything after a segment `token` hidden. Paths of this port contain no token, but a client may use
/// this port instead of the admin port, also through a proxy that adds a prefix.
fn redact_path(path: &str) -> String {
    let is_token = |part: &[u8]| part.eq_ignore_ascii_case(b"token");
    let mut begin = 0;
    for segment in path.split_inclusive('/') {
        let end = begin + segment.len();
        let plain = segment.strip_suffix('/').unwrap_or(segment);
        let plain = unescape(plain, Plus::IsPlus).unwrap_or_default();
        if plain.split(|byte| *byte == b'/').any(is_token) {
            // A segment with an encoded slash may contain the token itself.
            let shown = if is_token(&plain) { end } else { begin };
            let hidden = if shown < path.len() { HIDDEN } else { "" };
            return format!("{}{hidden}", &path[..shown]);
        }
        begin = end;
    }
    path.to_owned()
}

/// The query, with the values of parameters whose names contain `token` hidden. Pairs that cannot be decoded are hidden
/// as a whole.
fn redact_query(query: &str) -> String {
    let shown = query.split('&').map(|pair| {
        let key = pair.split('=').next().unwrap_or_default();
        match unescape(key, Plus::IsSpace) {
            Some(plain) if !pair.contains(';') => {
                if !names_token(&plain) {
                    return pair.to_owned();
                }
                format!("{key}={HIDDEN}")
            }
            _ => HIDDEN.to_owned(),
        }
    });
    shown.collect::<Vec<_>>().join("&")
}

/// Whether a name contains `token`: `X-Token`, `tokens`, `token[]` …
fn names_token(key: &[u8]) -> bool {
    let parts = &mut key.windows(b"token".len());
    parts.any(|part| part.eq_ignore_ascii_case(b"token"))
}

/// The text, with all parts hidden that contain a text of the form of a credential: clients use wrong parameters and
/// wrong positions in a path.
fn hide_credentials(text: &str) -> String {
    let is_end = |letter: char| matches!(letter, '/' | '&' | '=' | ';' | '?');
    let shown = text.split_inclusive(is_end).map(|part| {
        let plain = part.strip_suffix(is_end).unwrap_or(part);
        let decoded = unescape(plain, Plus::IsPlus);
        let is_credential = match &decoded {
            Some(decoded) => has_credential(decoded),
            None => has_credential(plain.as_bytes()),
        };
        match is_credential {
            true => format!("{HIDDEN}{}", &part[plain.len()..]),
            false => part.to_owned(),
        }
    });
    shown.collect()
}

/// Whether a text contains an API key, or the text of a generated token. The id of a job has the form of such a token,
/// and is known by its parts.
fn has_credential(text: &[u8]) -> bool {
    let is_token = |run: &[u8]| run.len() == TOKEN_BYTES && !is_job_id(run);
    let mut runs = text.split(|byte| !byte.is_ascii_alphanumeric());
    runs.any(is_token) || text.windows(KEY_BEGIN_BYTES).any(begins_key)
}

/// Whether a text is the beginning of an API key: `tg_`, an id and `_`.
fn begins_key(text: &[u8]) -> bool {
    let id = text.strip_prefix(b"tg_");
    let id = id.and_then(|id| id.strip_suffix(b"_"));
    id.is_some_and(|id| id.iter().all(u8::is_ascii_alphanumeric))
}

/// Whether a text is the id of a job that may exist. Of 65,000 tokens of lmstfy, one token has this form, and of a
/// billion tokens of ours, fewer than one.
fn is_job_id(text: &[u8]) -> bool {
    let id = str::from_utf8(text).ok();
    let id = id.and_then(|id| id.parse::<JobId>().ok());
    id.is_some_and(|id| {
        id.number() < JOB_NUMBER_MAX && JOB_CREATED_MS.contains(&id.created_at_ms())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_shown_without_anything_that_may_be_a_token() {
        for (query, shown) in [
            ("", ""),
            ("delay=5&tries=3", "delay=5&tries=3"),
            ("ttr=%zz&&x", "ttr=%zz&&x"),
            ("token=secret", "token=***"),
            ("delay=5&token=secret&ttl=1", "delay=5&token=***&ttl=1"),
            ("token=a=secret", "token=***"),
            ("token", "token=***"),
            ("t%6Fken=secret", "t%6Fken=***"),
            ("%74%6f%6b%65%6e=secret", "%74%6f%6b%65%6e=***"),
            ("Token=secret&TOKEN=secret", "Token=***&TOKEN=***"),
            ("x-token=secret&+token+=secret", "x-token=***&+token+=***"),
            ("token=one;secret", "***"),
            ("a=1;token=secret&b=2", "***&b=2"),
            ("tok%zzen=secret", "***"),
            ("token%=secret", "***"),
            ("token[]=secret&a=1", "token[]=***&a=1"),
            ("tokens=secret", "tokens=***"),
            ("token%00=secret", "token%00=***"),
            ("my_Token_2=secret", "my_Token_2=***"),
        ] {
            assert_eq!(redact_query(query), shown, "{query}");
        }
    }

    #[test]
    fn a_path_is_shown_without_what_follows_a_segment_token() {
        for (path, shown) in [
            ("/api/ns/q/job/1", "/api/ns/q/job/1"),
            ("/api/tokens/q", "/api/tokens/q"),
            ("/api/ns/token", "/api/ns/token"),
            ("/api/ns%zz/q", "/api/ns%zz/q"),
            ("/token/ns/secret", "/token/***"),
            ("//token/ns/secret", "//token/***"),
            ("/t%6fken/ns/secret", "/t%6fken/***"),
            ("/Token/ns/secret/limit", "/Token/***"),
            ("/prefix/token/ns/secret", "/prefix/token/***"),
            ("/a/b%20/TOKEN/ns/secret/limit", "/a/b%20/TOKEN/***"),
            ("/prefix/token%2Fns%2Fsecret", "/prefix/***"),
            ("/prefix%2ftoken/ns/secret", "/***"),
        ] {
            assert_eq!(redact_path(path), shown, "{path}");
        }
    }
    #[test]
    fn credentials_are_hidden_wherever_they_are() {
        const KEY: &str = "tg_0123456789AB_ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        const TOKEN: &str = "Q7LUIO3K9Z0A1B2C3D4E5F6G7H";
        // A token of lmstfy is a ULID, as the id of a job is.
        const ULID: &str = "01HZZZZZZZQ7XK3K9Z0A1B2C3D";
        let job = JobId::new(1_770_000_000_000, 17, 123_456_789, 54_321).to_string();
        let encoded: String = TOKEN.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for (text, shown) in [
            (format!("key={KEY}&a=1"), "key=***&a=1".to_owned()),
            (format!("{KEY}=1"), "***=1".to_owned()),
            (format!("a=Bearer+{KEY}"), "a=***".to_owned()),
            (format!("key={}", &KEY[..30]), "key=***".to_owned()),
            (format!("key=%74{}", &KEY[1..]), "key=***".to_owned()),
            (format!("key={TOKEN}&b=2"), "key=***&b=2".to_owned()),
            (
                format!("/api/{TOKEN}/q/job/{job}"),
                format!("/api/***/q/job/{job}"),
            ),
            (format!("/api/ns/default:{TOKEN}"), "/api/ns/***".to_owned()),
            (format!("/api/ns/{encoded}"), "/api/ns/***".to_owned()),
            (
                format!("/v1/ns/queues/{ULID}"),
                "/v1/ns/queues/***".to_owned(),
            ),
            (format!("/v1/{KEY}/reserve"), "/v1/***/reserve".to_owned()),
        ] {
            assert_eq!(hide_credentials(&text), shown, "{text}");
        }
        for text in [
            format!("/v1/ns/queues/q/jobs/{job}"),
            format!("/v1/ns/leases/{job}.1/ack"),
            "/v1/ns/queues/tg_orders/jobs/key:order-17".to_owned(),
            "delay=5&a=ABCDEFGHIJKLMNOPQRSTUVWXYZ0".to_owned(),
            "ttr=%zz&&x".to_owned(),
        ] {
            assert_eq!(hide_credentials(&text), text);
        }
    }
}
