//! A strict reader of a stream of HTTP answers.

use std::str::from_utf8;

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        all.find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }
}

/// The answers in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) whole: Vec<Response>,
    /// Whether the stream ends in the middle of an answer.
    pub(crate) is_cut: bool,
}

/// Reads a stream. `to_head`: a request may have been a HEAD, so an answer may have a length and no body.
pub(crate) fn read(stream: &[u8], to_head: bool) -> Result<Answers, String> {
    let mut rest = stream;
    let mut whole = Vec::new();
    while !rest.is_empty() {
        match one(rest, to_head)? {
            Some((response, after)) => {
                whole.push(response);
                rest = after;
            }
            None => {
                let is_cut = true;
                return Ok(Answers { whole, is_cut });
            }
        }
    }
    let is_cut = false;
    Ok(Answers { whole, is_cut })
}

fn one(stream: &[u8], to_head: bool) -> Result<Option<(Response, &[u8])>, String> {
    let Some(end) = find(stream, b"\r\n\r\n") else {
        return match stream.starts_with(&b"HTTP/1."[..stream.len().min(7)]) {
            true => Ok(None),
            false => Err(format!("no HTTP: {}", shown(stream))),
        };
    };
    let (head, rest) = (&stream[..end], &stream[end + 4..]);
    let head = from_utf8(head).map_err(|_| format!("a head not in UTF-8: {}", shown(head)))?;
    let mut lines = head.split("\r\n");
    let status = status(lines.next().unwrap_or_default())?;
    let mut headers = Vec::new();
    for line in lines {
        headers.push(header(line)?);
    }
    let mut response = Response {
        status,
        headers,
        body: Vec::new(),
    };
    if status < 200 || status == 204 || status == 304 {
        return match response.header("content-length") {
            None | Some("0") => Ok(Some((response, rest))),
            Some(_) => Err(format!("{status} with a length")),
        };
    }
    if to_head && (rest.is_empty() || rest.starts_with(b"HTTP/1.")) {
        return Ok(Some((response, rest)));
    }
    let lengths: Vec<&str> = values(&response, "content-length");
    let encodings = values(&response, "transfer-encoding");
    let body = match (&lengths[..], &encodings[..]) {
        ([length], []) => {
            let length: usize = length.parse().map_err(|_| format!("length {length:?}"))?;
            (rest.len() >= length).then(|| (rest[..length].to_vec(), &rest[length..]))
        }
        ([], ["chunked"]) => chunks(rest)?,
        other => return Err(format!("{status} framed as {other:?}")),
    };
    Ok(body.map(|(body, rest)| {
        response.body = body;
        (response, rest)
    }))
}

fn values<'a>(response: &'a Response, name: &str) -> Vec<&'a str> {
    let all = response.headers.iter().filter(|(found, _)| found == name);
    all.map(|(_, value)| value.as_str()).collect()
}

fn status(line: &str) -> Result<u16, String> {
    let bad = || format!("status line {line:?}");
    let rest = line
        .strip_prefix("HTTP/1.1 ")
        .or_else(|| line.strip_prefix("HTTP/1.0 "))
        .ok_or_else(bad)?;
    let (digits, _reason) = rest.split_once(' ').ok_or_else(bad)?;
    let status = digits.parse().ok().filter(|_| digits.len() == 3);
    let status = status.filter(|status| (100..600).contains(status));
    status.ok_or_else(bad)
}

fn header(line: &str) -> Result<(String, String), String> {
    let bad = || format!("header line {line:?}");
    let (name, value) = line.split_once(": ").ok_or_else(bad)?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) || value.contains(['\r', '\n', '\0']) {
        return Err(bad());
    }
    Ok((name.to_ascii_lowercase(), value.to_owned()))
}

type Body<'a> = Option<(Vec<u8>, &'a [u8])>;

fn chunks(mut stream: &[u8]) -> Result<Body<'_>, String> {
    let mut body = Vec::new();
    loop {
        let Some(end) = find(stream, b"\r\n") else {
            return Ok(None);
        };
        let line = from_utf8(&stream[..end]).unwrap_or("?");
        let length =
            usize::from_str_radix(line, 16).map_err(|_| format!("chunk length {line:?}"))?;
        let Some(chunk) = stream.get(end + 2..end + 4 + length) else {
            return Ok(None);
        };
        if !chunk.ends_with(b"\r\n") {
            return Err("a chunk without an end".to_owned());
        }
        stream = &stream[end + 4 + length..];
        if length == 0 {
            return Ok(Some((body, stream)));
        }
        body.extend_from_slice(&chunk[..length]);
    }
}

/// Where `part` begins in `stream`.
pub(crate) fn find(stream: &[u8], part: &[u8]) -> Option<usize> {
    stream.windows(part.len()).position(|it| it == part)
}

/// The first bytes, escaped so that they can be printed.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 3000;
    let text = bytes[..bytes.len().min(SHOWN)].escape_ascii();
    match bytes.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{text} … and {more} bytes more"),
        _ => text.to_string(),
    }
}

#[test]
fn a_stream_of_answers_is_read_strictly() {
    let good =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}";
    let answers = read(good, false).unwrap();
    let statuses: Vec<u16> = answers.whole.iter().map(|one| one.status).collect();
    assert_eq!((statuses, answers.is_cut), (vec![100, 404], false));
    for cut in 1..good.len() {
        assert!(read(&good[..cut], false).is_ok(), "{cut}");
    }
    assert!(read(&good[..good.len() - 1], false).unwrap().is_cut);
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(read(chunked, false).unwrap().whole[0].body, b"abc");
    for bad in [
        &b"hello"[..],
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nbody without a length",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBroken\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}more",
    ] {
        assert!(read(bad, false).is_err(), "{}", shown(bad));
    }
}
