//! Rejects cross-site browser requests to a port that may need no credential.
//!
//! A web page that an operator opens can make the browser send requests to any address that the operator's machine
//! reaches, including its own ports. The browser marks such requests with `Sec-Fetch-Site`, and with `Origin` where
//! a request could change something. A page can also let its own name resolve to 127.0.0.1 (DNS rebinding); then
//! only the `Host` reveals it. Other programs send neither header, and a `Host` that they were configured with.

use std::net::IpAddr;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Response, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Paths without the check: load balancers request them with a `Host` of their choice, and the answers are not
/// sensitive.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Middleware that answers cross-site requests with 403. `on_loopback` is whether the port listens on a loopback
/// address. There the `Host` must be `localhost` or an IP address.
pub(crate) async fn same_origin(
    State(on_loopback): State<bool>,
    request: Request,
    next: Next,
) -> Response<Body> {
    if OPEN.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    match cross_site_refusal(request.headers(), on_loopback) {
        None => next.run(request).await,
        Some(refused) => refused,
    }
}

/// The answer to a request with these headers if [`cross_site_reason`] refuses it.
#[must_use]
pub fn cross_site_refusal(headers: &HeaderMap, on_loopback: bool) -> Option<Response<Body>> {
    let why = cross_site_reason(headers, on_loopback)?;
    // At level debug, and without the path: a page can send thousands of these, and paths may contain tokens.
    tracing::debug!("rejected a cross-site request: {why}");
    Some((StatusCode::FORBIDDEN, format!("403 forbidden: {why}")).into_response())
}

/// Why a request with these headers is refused, since a page of another site may have made a browser send it; `None` if
/// it is not. `on_loopback` is whether the port listens on a loopback address.
#[must_use]
pub fn cross_site_reason(headers: &HeaderMap, on_loopback: bool) -> Option<&'static str> {
    let text = |name: HeaderName| Some(headers.get(name)?.to_str().unwrap_or_default());
    let host = text(header::HOST);
    if text(FETCH_SITE).is_some_and(|site| site.eq_ignore_ascii_case("cross-site")) {
        return Some("it comes from a page of another site (Sec-Fetch-Site)");
    }
    if text(header::ORIGIN).is_some_and(|origin| !has_host(origin, host.unwrap_or_default())) {
        return Some("it comes from a page of another site (Origin); a proxy must keep the Host");
    }
    if on_loopback && host.is_some_and(|host| !is_local(host)) {
        return Some(
            "this port listens on a loopback address: the Host must be localhost or an IP address",
        );
    }
    None
}

/// Whether an origin has the name and port of this host.
fn has_host(origin: &str, host: &str) -> bool {
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    !host.is_empty() && authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Whether a host is `localhost`, a name below it, or an IP address. No name server resolves these, so no other
/// site can have them.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(lines: &[(&'static str, &str)], on_loopback: bool) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.insert(*name, value.parse().unwrap());
        }
        cross_site_reason(&headers, on_loopback).is_some()
    }

    #[test]
    fn cross_site_requests_are_recognized_by_browser_headers() {
        for on_loopback in [true, false] {
            let host = ("host", "127.0.0.1:7778");
            for (line, refused) in [
                (("sec-fetch-site", "cross-site"), true),
                (("sec-fetch-site", "Cross-Site"), true),
                (("sec-fetch-site", "same-origin"), false),
                (("sec-fetch-site", "none"), false),
                (("origin", "http://127.0.0.1:7778"), false),
                (("origin", "http://127.0.0.1:3000"), true),
                (("origin", "http://127.0.0.1"), true),
                (("origin", "http://evil.example"), true),
                (("origin", "http://127.0.0.1:7778.evil.example"), true),
                (("origin", "null"), true),
                (("origin", ""), true),
            ] {
                assert_eq!(is_refused(&[host, line], on_loopback), refused, "{line:?}");
            }
            assert!(is_refused(
                &[("origin", "http://127.0.0.1:7778")],
                on_loopback
            ));
            assert!(!is_refused(&[], on_loopback));
        }
    }

    #[test]
    fn on_loopback_only_local_host_names_are_accepted() {
        for (host, refused) in [
            ("localhost", false),
            ("LOCALHOST:7778", false),
            ("localhost.:7778", false),
            ("tidegate.localhost", false),
            ("127.0.0.1:9000", false),
            ("[::1]:7778", false),
            ("10.0.0.1", false),
            ("evil.example:7778", true),
            ("localhost.evil.example", true),
            ("127.0.0.1.evil.example", true),
            ("", true),
        ] {
            assert_eq!(is_refused(&[("host", host)], true), refused, "{host}");
            assert!(!is_refused(&[("host", host)], false), "{host}");
        }
    }
}
