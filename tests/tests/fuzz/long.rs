//! Entries of the corpus that are too long for a file.

use crate::corpus::Entry;
use crate::target::{CREDENTIALS, NAMESPACE, Port, TOKEN};

/// They are sent in every run, like those in files.
pub(crate) fn entries() -> Vec<Entry> {
    let mut entries = bodies();
    entries.extend(heads());
    entries
}

fn bodies() -> Vec<Entry> {
    let chunked = "Transfer-Encoding: chunked\r\n\r\n";
    let extension = "e".repeat(20_000);
    let trailers = "X-T: y\r\n".repeat(3000);
    let form = format!("description={}", "d".repeat(70_000));
    vec![
        put(
            "body-one-byte-too-large",
            "",
            &length("x".repeat(1_048_577)),
        ),
        put(
            "chunk-extension-without-end",
            "",
            &format!("{chunked}3;{extension}\r\nabc\r\n0\r\n\r\n"),
        ),
        put(
            "trailers-without-end",
            "",
            &format!("{chunked}0\r\n{trailers}"),
        ),
        put("bulk-deep", "/bulk", &length(nested("[", "", "]"))),
        put(
            "bulk-deep-without-end",
            "/bulk",
            &length(nested("[", "", "")),
        ),
        put(
            "bulk-deep-objects",
            "/bulk",
            &length(format!("[{}]", nested("{\"a\":", "1", "}"))),
        ),
        put(
            "bulk-of-many",
            "/bulk",
            &length(format!("[{}1]", "1,".repeat(200_000))),
        ),
        admin(
            "limit-deep",
            "PUT",
            "/token/fuzz/long/limit",
            &length(nested("{\"x\":[", "", "")),
        ),
        admin(
            "token-form-too-large",
            "POST",
            "/token/fuzz",
            &format!(
                "Content-Type: application/x-www-form-urlencoded\r\n{}",
                length(form)
            ),
        ),
    ]
}

fn heads() -> Vec<Entry> {
    let many = |count| "y".repeat(count);
    let long_header = format!("X-Long: {}\r\n\r\n", many(140_000));
    let get = |name, target: String, rest: &str| public(name, "GET", &target, rest);
    let queue = format!("/api/{NAMESPACE}/q");
    vec![
        get("header-too-long", format!("{queue}/size"), &long_header),
        get("path-too-long", format!("{queue}{}", many(70_000)), "\r\n"),
        get(
            "path-almost-too-long",
            format!("{queue}{}", many(65_000)),
            "\r\n",
        ),
        get(
            "query-too-long",
            format!("{queue}?x={}", many(140_000)),
            "\r\n",
        ),
        admin("header-too-long", "GET", "/version", &long_header),
        admin(
            "path-too-long",
            "GET",
            &format!("/{}", many(70_000)),
            "\r\n",
        ),
        admin(
            "token-long",
            "POST",
            &format!("/token/{NAMESPACE}?description=x&token={}", many(20_000)),
            "\r\n",
        ),
        admin(
            "credentials-long",
            "GET",
            "/limits",
            &format!("Authorization: Basic {}\r\n\r\n", many(40_000)),
        ),
    ]
}

fn nested(begin: &str, middle: &str, end: &str) -> String {
    const LEVELS: usize = 100_000;
    format!("{}{middle}{}", begin.repeat(LEVELS), end.repeat(LEVELS))
}

/// The end of a head, and this body.
fn length(body: String) -> String {
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

fn put(name: &str, suffix: &str, rest: &str) -> Entry {
    public(name, "PUT", &format!("/api/{NAMESPACE}/q{suffix}"), rest)
}

fn public(name: &str, method: &str, target: &str, rest: &str) -> Entry {
    let head = format!("{method} {target} HTTP/1.1\r\nHost: x\r\nX-Token: {TOKEN}\r\n");
    entry(Port::Public, name, head + rest)
}

fn admin(name: &str, method: &str, target: &str, rest: &str) -> Entry {
    let head = format!("{method} {target} HTTP/1.1\r\nAuthorization: Basic {CREDENTIALS}\r\n");
    entry(Port::Admin, name, head + rest)
}

fn entry(port: Port, name: &str, text: String) -> Entry {
    Entry {
        name: format!("{}-{name}", port.name()),
        port,
        bytes: text.into_bytes(),
    }
}
