//! Keeps web pages of other sites away from an admin port.
//!
//! A page that an operator looks at can have the browser send requests to any address that the operator's machine
//! reaches, and to ports of that machine. The browser says so: in `Sec-Fetch-Site`, and in `Origin` where a request
//! could change something. A page can also have its own name resolve to 127.0.0.1; then only the `Host` gives it
//! away. Programs send none of this but a `Host` that they were given.

use std::net::IpAddr;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Response, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What balancers ask, with a host of their choice. The answers have nothing in them worth hiding.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Whether the port listens on a loopback address, where a name other than `localhost` is a foreign one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnLoopback(pub(crate) bool);

/// Answers 403 to requests that a page of another site has sent.
pub(crate) async fn same_origin(
    State(OnLoopback(on_loopback)): State<OnLoopback>,
    request: Request,
    next: Next,
) -> Response<Body> {
    if OPEN.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    match refusal(request.headers(), on_loopback) {
        None => next.run(request).await,
        Some(why) => {
            // A page can make thousands of them. Their paths may have tokens in them.
            tracing::debug!("rejected a request of another site: {why}");
            (StatusCode::FORBIDDEN, format!("403 forbidden: {why}")).into_response()
        }
    }
}

fn refusal(headers: &HeaderMap, on_loopback: bool) -> Option<&'static str> {
    let text = |name: HeaderName| Some(headers.get(name)?.to_str().unwrap_or_default());
    let host = text(header::HOST);
    if text(FETCH_SITE).is_some_and(|site| site.eq_ignore_ascii_case("cross-site")) {
        return Some("it comes from a page of another site (Sec-Fetch-Site)");
    }
    if text(header::ORIGIN).is_some_and(|origin| !is_of_host(origin, host.unwrap_or_default())) {
        return Some("it comes from a page of another site (Origin); a proxy must keep the Host");
    }
    if on_loopback && host.is_some_and(|host| !is_local(host)) {
        return Some(
            "this port listens on a loopback address: the Host must be localhost or an IP address",
        );
    }
    None
}

/// Whether an origin is that of the pages of this host: the same name and port.
fn is_of_host(origin: &str, host: &str) -> bool {
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    !host.is_empty() && authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Whether no page of another site can have this host: its name would have to be resolved by a name server.
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
        refusal(&headers, on_loopback).is_some()
    }

    #[test]
    fn pages_of_other_sites_are_told_by_what_browsers_say() {
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
    fn on_loopback_a_name_of_elsewhere_is_foreign() {
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
