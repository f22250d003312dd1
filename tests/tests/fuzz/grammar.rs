//! Streams of requests: mostly valid ones for every route, with occasional errors.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::bodies;
use crate::target::{CREDENTIALS, Port, TOKEN};
use crate::values::{chance, escaped, job_id, namespace, one, query, queue, queues, token};

const PUBLISH: [&str; 3] = ["delay", "ttl", "tries"];
const CONSUME: [&str; 4] = ["ttr", "timeout", "count", "freeze_tries"];

/// The kind of body that a route expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Nothing,
    Job,
    Array,
    Form,
    Limiter,
}

struct Request {
    method: String,
    target: String,
    body: Body,
}

impl Request {
    fn new(method: &str, target: String, body: Body) -> Self {
        let method = method.to_owned();
        Self {
            method,
            target,
            body,
        }
    }
}

/// A stream of one to five requests. `known` are ids of jobs.
pub(crate) fn stream(rng: &mut StdRng, port: Port, known: &[String]) -> Vec<u8> {
    let count = match rng.random_range(0..100) {
        0..70 => 1,
        _ => rng.random_range(2..6),
    };
    let mut stream = prefix(rng);
    for number in 1..=count {
        let request = match port {
            Port::Public => public(rng, known),
            Port::Admin => admin(rng),
        };
        let is_last = number == count;
        write(rng, &mut stream, port, request, is_last, count == 1);
    }
    stream
}

/// What may come before anything else.
fn prefix(rng: &mut StdRng) -> Vec<u8> {
    const PREFIXES: [&[u8]; 8] = [
        b"\r\n",
        b"\r\n\r\n\r\n",
        b"\n",
        b" ",
        b"\0",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
    ];
    match chance(rng, 3) {
        true => one(rng, &PREFIXES).to_vec(),
        false => Vec::new(),
    }
}

fn public(rng: &mut StdRng, known: &[String]) -> Request {
    let (ns, q) = (namespace(rng), queue(rng));
    let id = job_id(rng, known);
    let base = format!("/api/{ns}/{q}");
    let plain =
        |method, suffix: &str| Request::new(method, format!("{base}{suffix}"), Body::Nothing);
    match rng.random_range(0..16) {
        0..3 => Request::new("PUT", base + &query(rng, &PUBLISH), Body::Job),
        3..5 => {
            let target = format!("{base}/bulk{}", query(rng, &PUBLISH));
            Request::new("PUT", target, Body::Array)
        }
        5 => {
            let target = format!("{base}/job/{id}{}", query(rng, &PUBLISH));
            Request::new("PUT", target, Body::Job)
        }
        6..9 => {
            let target = format!("/api/{ns}/{}{}", queues(rng), query(rng, &CONSUME));
            Request::new("GET", target, Body::Nothing)
        }
        9 => plain("GET", "/peek"),
        10 => plain("GET", &format!("/job/{id}")),
        11 => plain("DELETE", &format!("/job/{id}")),
        12 => plain(
            "GET",
            one(rng, &["/size", "/deadletter/size", "/deadletter"]),
        ),
        13 => {
            let query = query(rng, &["limit", "ttl"]);
            plain(one(rng, &["PUT", "DELETE"]), &format!("/deadletter{query}"))
        }
        14 => plain("DELETE", ""),
        _ => plain(
            one(rng, &["GET", "PUT", "DELETE"]),
            one(
                rng,
                &[
                    "/",
                    "//",
                    "/nothing",
                    "/job",
                    "/../..",
                    "/peek/x",
                    "?",
                    "#x",
                    "/size?token=nowhere:x",
                ],
            ),
        ),
    }
}

/// The read-only routes of the admin port.
const VIEWS: [&str; 14] = [
    "/version",
    "/version/",
    "/pools",
    "/pools/",
    "/info",
    "/info/",
    "/info?pool=default",
    "/info?pool=nowhere",
    "/accesslog",
    "/accesslog?status=enable",
    "/debug/pprof/",
    "/debug/pprof/profile?seconds=1",
    "/healthz",
    "/readyz",
];

fn admin(rng: &mut StdRng) -> Request {
    let ns = namespace(rng);
    let token = match chance(rng, 95) {
        true => "chosen-by-the-fuzzer-0".to_owned(),
        false => token(rng),
    };
    let queries = [
        String::new(),
        "?description=x".to_owned(),
        format!("?description=x&token={TOKEN}"),
        "?description=%3Cb%3E&pool=default".to_owned(),
        "?description=x&pool=nowhere".to_owned(),
        format!(
            "?description={}&token={}",
            "d".repeat(3000),
            "t".repeat(3000)
        ),
    ];
    let query = &queries[rng.random_range(0..queries.len())];
    let plain = |method, target: String| Request::new(method, target, Body::Nothing);
    match rng.random_range(0..12) {
        0..2 => Request::new("POST", format!("/token/{ns}{query}"), Body::Form),
        2 => plain(
            "GET",
            format!(
                "/token/{ns}{}",
                one(rng, &["", "?pool=default", "?pool=x", "?pool"])
            ),
        ),
        3 => plain("DELETE", format!("/token/{ns}/{token}")),
        4..6 => {
            let method = one(rng, &["POST", "PUT"]);
            Request::new(method, format!("/token/{ns}/{token}/limit"), Body::Limiter)
        }
        6 => plain(
            one(rng, &["GET", "DELETE"]),
            format!("/token/{ns}/{token}/limit"),
        ),
        7 => plain(
            "GET",
            format!(
                "/limits{}",
                one(rng, &["", "?force_update=true", "?force_update=x"])
            ),
        ),
        8 => match chance(rng, 50) {
            true => plain("GET", "/metrics".to_owned()),
            false => plain("POST", "/accesslog?status=disable".to_owned()),
        },
        9 => plain("GET", one(rng, &VIEWS).to_owned()),
        _ => plain(
            one(rng, &["GET", "POST", "PUT", "DELETE"]),
            one(
                rng,
                &[
                    "/",
                    "/token",
                    "/token/",
                    "/token/a/b/c",
                    "/limits/",
                    "/nowhere",
                    "//",
                ],
            )
            .to_owned(),
        ),
    }
}

fn write(
    rng: &mut StdRng,
    stream: &mut Vec<u8>,
    port: Port,
    request: Request,
    is_last: bool,
    is_alone: bool,
) {
    let wants_body = request.body;
    let line = request_line(rng, request);
    let end = one(rng, &["\r\n"; 60]);
    stream.extend_from_slice(&line);
    stream.extend_from_slice(end.as_bytes());
    stream.extend_from_slice(&headers(rng, port));
    if is_last && chance(rng, 60) {
        stream.extend_from_slice(b"Connection: close\r\n");
    }
    let body = match wants_body {
        Body::Nothing if chance(rng, 85) => None,
        Body::Nothing | Body::Job => Some(bodies::bytes(rng, is_alone)),
        Body::Array => Some(bodies::array(rng)),
        Body::Form => Some(bodies::form(rng)),
        Body::Limiter => Some(bodies::limiter(rng)),
    };
    if wants_body == Body::Form && chance(rng, 80) {
        stream.extend_from_slice(b"Content-Type: application/x-www-form-urlencoded\r\n");
    }
    let (lines, body) = body
        .map(|body| bodies::framed(rng, &body))
        .unwrap_or_default();
    stream.extend_from_slice(lines.as_bytes());
    stream.extend_from_slice(b"\r\n");
    stream.extend_from_slice(&body);
}

fn request_line(rng: &mut StdRng, request: Request) -> Vec<u8> {
    const METHODS: [&str; 16] = [
        "GET", "PUT", "DELETE", "POST", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get", "",
        "G\0T", "PUT\t", "M-SEARCH", "PRI", "\u{fc}",
    ];
    const VERSIONS: [&str; 10] = [
        " HTTP/1.0",
        " HTTP/1.0",
        " HTTP/0.9",
        " HTTP/2.0",
        " HTTP/1.",
        " http/1.1",
        "",
        " HTTP/1.1 x",
        "  HTTP/1.1",
        " HTTP/11",
    ];
    let method = match rng.random_range(0..100) {
        0..95 => request.method,
        95..99 => one(rng, &METHODS).to_owned(),
        _ => "M".repeat(rng.random_range(20..5000)),
    };
    let version = match chance(rng, 94) {
        true => " HTTP/1.1",
        false => one(rng, &VERSIONS),
    };
    let target = target(rng, request.target);
    format!("{method} {target}{version}").into_bytes()
}

fn target(rng: &mut StdRng, target: String) -> String {
    match rng.random_range(0..200) {
        0..180 => target,
        180..184 => format!("http://host:1{target}"),
        184 => "host:80".to_owned(),
        185 => "*".to_owned(),
        186 => String::new(),
        187 => target.replacen('/', "//", 2),
        188 => target.replacen("/api", "/api/./../api", 1),
        189 => target.replace('/', "\\"),
        190 => escaped(&target),
        191 => format!("{target}#fragment"),
        192 => format!("{target}?{target}?{target}"),
        193 => format!("{target}/{}", "p".repeat(rng.random_range(1000..70_000))),
        194 => format!(
            "{target}?x={}",
            "v".repeat(rng.random_range(60_000..140_000))
        ),
        195 => target.replace('=', "=\u{fc}\u{2028}"),
        196 => target.replace('/', "/%"),
        197 => format!("{target}\0"),
        198 => format!("https://user:pass@[::1]:99999{target}"),
        _ => target.to_uppercase(),
    }
}

fn headers(rng: &mut StdRng, port: Port) -> Vec<u8> {
    let mut lines = String::new();
    if chance(rng, 95) {
        // The admin port refuses other hosts.
        lines.push_str("Host: localhost\r\n");
    }
    match port {
        Port::Public => {
            lines.push_str("X-Token: ");
            lines.push_str(&token(rng));
            lines.push_str("\r\n");
        }
        Port::Admin if chance(rng, 90) => {
            lines.push_str(&format!("Authorization: Basic {CREDENTIALS}\r\n"));
        }
        Port::Admin => lines.push_str(one(
            rng,
            &[
                "Authorization: Basic\r\n",
                "Authorization: basic %%%\r\n",
                "Authorization: \u{fc}\r\n",
                "",
            ],
        )),
    }
    if chance(rng, 20) {
        attributes(rng, &mut lines);
    }
    let mut bytes = lines.into_bytes();
    if chance(rng, 12) {
        bytes.extend(odd_header(rng));
    }
    bytes
}

fn attributes(rng: &mut StdRng, lines: &mut String) {
    lines.push_str(one(
        rng,
        &[
            "Enable-Job-Version: YES\r\n",
            "enable-job-version: no\r\n",
            "",
        ],
    ));
    let count = match chance(rng, 90) {
        true => rng.random_range(0..4),
        false => rng.random_range(14..19),
    };
    for number in 0..count {
        let key = "k".repeat(rng.random_range(0..40));
        let value =
            one(rng, &["v", "", "\u{fc}\u{1f30a}", "<&>", "a\tb"]).repeat(rng.random_range(0..70));
        lines.push_str(&format!("Job-Attr-{key}{number}: {value}\r\n"));
    }
}

fn odd_header(rng: &mut StdRng) -> Vec<u8> {
    const ODD: [&[u8]; 20] = [
        b"Expect: 100-continue\r\n",
        b"Expect: 100-continue\r\n",
        b"Expect: something-else\r\n",
        b"Connection: keep-alive\r\n",
        b"Connection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        b"Connection: upgrade\r\nUpgrade: websocket\r\n",
        b"X-Folded: a\r\n b\r\n",
        b"No colon\r\n",
        b": no name\r\n",
        b"Space : x\r\n",
        b"X-Nul: a\0b\r\n",
        b"X-Latin: \xff\xfe\r\n",
        b"X-Bare: a\nX-More: b\r\n",
        b"X-Return: a\rb\r\n",
        b"Host: other\r\n",
        b"Content-Encoding: gzip\r\n",
        b"Range: bytes=0-0,-1\r\n",
        b"X-Request-Id: 01ARZ3NDEKTSV4RRFFQ69G5FAV\r\n",
        b"Accept-Encoding: gzip\r\n",
        b"Connection: close, keep-alive, x\r\n",
    ];
    match rng.random_range(0..100) {
        0..90 => one(rng, &ODD).to_vec(),
        90..95 => {
            let count = rng.random_range(80..400);
            let lines = (0..count).map(|number| format!("X-Flood-{number}: x\r\n"));
            lines.collect::<String>().into_bytes()
        }
        _ => {
            let length = rng.random_range(1000..140_000);
            format!("X-Long: {}\r\n", "x".repeat(length)).into_bytes()
        }
    }
}
