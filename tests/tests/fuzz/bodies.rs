//! Bodies of requests, and the ways to say how long they are.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::target::TOKEN;
use crate::values::{chance, number, one};

/// Any bytes, rarely about as many as a job may have.
pub(crate) fn bytes(rng: &mut StdRng, may_be_large: bool) -> Vec<u8> {
    let length = match rng.random_range(0..1000) {
        0..200 => 0,
        200..900 => rng.random_range(1..200),
        900..990 => rng.random_range(200..5000),
        990..994 if may_be_large => rng.random_range(1_048_570..1_048_583),
        994..996 if may_be_large => 1_500_000,
        _ => rng.random_range(5000..60_000),
    };
    if chance(rng, 50) {
        return vec![b'x'; length];
    }
    (0..length).map(|_| rng.random()).collect()
}

/// The body of a bulk publish: an array, or something that is almost one.
pub(crate) fn array(rng: &mut StdRng) -> Vec<u8> {
    let count = match rng.random_range(0..100) {
        0..70 => rng.random_range(1..5),
        70..80 => rng.random_range(60..68),
        80..82 => rng.random_range(1000..5000),
        _ => rng.random_range(0..2),
    };
    let mut text = String::new();
    for number in 0..count {
        if number > 0 {
            text.push_str(one(rng, &[",", ", ", " ,\n\t"]));
        }
        value(rng, &mut text, 0);
    }
    let mut array = format!("[{text}]").into_bytes();
    match rng.random_range(0..100) {
        0..80 => {}
        80..85 => {
            array.pop();
        }
        85..90 => array.insert(0, b'{'),
        90..93 => array.extend_from_slice(b" ]"),
        93..96 => array.splice(0..0, [0xEF, 0xBB, 0xBF]).for_each(drop),
        _ => {
            let at = rng.random_range(0..array.len());
            array[at] = rng.random();
        }
    }
    array
}

/// One JSON value, not always a valid one.
fn value(rng: &mut StdRng, text: &mut String, depth: usize) {
    match rng.random_range(0..100) {
        0..30 => text.push_str(&rng.random::<i64>().to_string()),
        30..50 => text.push_str(one(
            rng,
            &["null", "true", "1.50", "-0", "1e999", "\"\"", "{}", "[ ]"],
        )),
        50..60 => text.push_str(one(
            rng,
            &[
                "\"\\ud800\"",
                "\"\\u0000\"",
                "\"\u{fc}\u{1f30a}\"",
                "\"\\\"\"",
                "\"\\/\"",
            ],
        )),
        60..63 => text.push_str(one(
            rng,
            &["01", "nul", "'a'", "\"", "\\", "-", "\"\u{1}\"", "NaN"],
        )),
        63..65 => {
            let levels = rng.random_range(100..20_000);
            text.push_str(&"[".repeat(levels));
            text.push_str(&"]".repeat(levels));
        }
        65..80 if depth < 5 => {
            text.push_str("{\"k\" : ");
            value(rng, text, depth + 1);
            text.push('}');
        }
        80..95 if depth < 5 => {
            text.push('[');
            value(rng, text, depth + 1);
            text.push_str(" ,");
            value(rng, text, depth + 1);
            text.push(']');
        }
        _ => text.push('1'),
    }
}

/// A form for a new token.
pub(crate) fn form(rng: &mut StdRng) -> Vec<u8> {
    let forms = [
        "description=some+words".to_owned(),
        format!("description=x&token={TOKEN}"),
        "description=x&token=chosen-by-the-fuzzer-%00-1".to_owned(),
        "description=x&token=default:chosen-by-the-fuzzer".to_owned(),
        "description=x&token=a:b:chosen-by-the-fuzzer".to_owned(),
        "token=short&description=x".to_owned(),
        "description=%FF%FE;&description=2".to_owned(),
        format!("description={}", "d".repeat(70_000)),
        String::new(),
    ];
    let all: Vec<&str> = forms.iter().map(String::as_str).collect();
    one(rng, &all).as_bytes().to_vec()
}

/// A rate limit, or almost one.
pub(crate) fn limiter(rng: &mut StdRng) -> Vec<u8> {
    let (read, write, interval) = (number(rng), number(rng), number(rng));
    let text = match rng.random_range(0..10) {
        0..6 => format!("{{\"read\":{read},\"write\":{write},\"interval\":{interval}}}"),
        6 => format!("{{\"read\":{read},\"read\":{write},\"interval\":{interval},\"x\":[{{}}]}}"),
        7 => format!("[{read},{write},{interval}]"),
        8 => "{".repeat(rng.random_range(1..2000)),
        _ => format!("{{\"read\":\"{read}\",\"interval\":null}}"),
    };
    text.into_bytes()
}

/// Header lines that frame a body, and the body as it is sent.
pub(crate) fn framed(rng: &mut StdRng, body: &[u8]) -> (String, Vec<u8>) {
    let length = body.len();
    match rng.random_range(0..100) {
        0..70 => (format!("Content-Length: {length}\r\n"), body.to_vec()),
        70..84 => (
            "Transfer-Encoding: chunked\r\n".to_owned(),
            chunked(rng, body),
        ),
        84..92 => {
            let lengths = [
                format!("Content-Length: {length}\r\nContent-Length: {length}\r\n"),
                format!("Content-Length: {length}\r\nContent-Length: 5\r\n"),
                format!("Content-Length: {length}, {length}\r\n"),
                format!("Content-Length: +{length}\r\n"),
                format!("Content-Length: {}\r\n", length + 1),
                format!("Content-Length: {}\r\n", length / 2),
                "Content-Length: -1\r\n".to_owned(),
                "Content-Length: 0x10\r\n".to_owned(),
                "Content-Length:\r\n".to_owned(),
                "Content-Length: 18446744073709551615\r\n".to_owned(),
                "Content-Length: 18446744073709551616\r\n".to_owned(),
                "Content-Length: 1073741824\r\n".to_owned(),
            ];
            (
                lengths[rng.random_range(0..lengths.len())].clone(),
                body.to_vec(),
            )
        }
        92..98 => {
            let encodings = [
                "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                "Transfer-Encoding: chunked, chunked\r\n",
                "Transfer-Encoding: gzip, chunked\r\n",
                "Transfer-Encoding: chunked, identity\r\n",
                "Transfer-Encoding: identity\r\n",
                "Transfer-Encoding : chunked\r\n",
                "Transfer-Encoding:\tchunked\r\n",
                "Transfer-Encoding: xchunked\r\n",
                "transfer-encoding: CHUNKED\r\n",
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            ];
            (one(rng, &encodings).to_owned(), chunked(rng, body))
        }
        _ => (String::new(), body.to_vec()),
    }
}

/// A body in chunks, some of them malformed.
fn chunked(rng: &mut StdRng, body: &[u8]) -> Vec<u8> {
    let mut sent = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let length = rng.random_range(1..=rest.len().min(20_000));
        let (chunk, after) = rest.split_at(length);
        let size = match rng.random_range(0..200) {
            0..160 => format!("{length:x}"),
            160..170 => format!("{length:X};extension=\"a b\""),
            170..178 => format!("{length:08x}"),
            178..184 => format!("{length:x} ; a"),
            184 => "ffffffffffffffff".to_owned(),
            185 => "fffffffffffffffff".to_owned(),
            186 => "-1".to_owned(),
            187 => "x".to_owned(),
            188 => format!("0x{length:x}"),
            189 => format!("{length:x};{}", "e".repeat(20_000)),
            190 => format!("{length:x}\n"),
            191 => String::new(),
            _ => format!("{length:x}"),
        };
        sent.extend_from_slice(size.as_bytes());
        sent.extend_from_slice(b"\r\n");
        sent.extend_from_slice(chunk);
        sent.extend_from_slice(one(rng, &["\r\n"; 40]).as_bytes());
        rest = after;
    }
    let ends = [
        "0\r\n\r\n",
        "0\r\n\r\n",
        "0\r\n\r\n",
        "0\r\n\r\n",
        "0\r\n\r\n",
        "0\r\nTrailer: x\r\n\r\n",
        "0\r\n",
        "",
        "0\r\n: x\r\n\r\n",
        "00000\r\n\r\n",
    ];
    sent.extend_from_slice(one(rng, &ends).as_bytes());
    sent
}
