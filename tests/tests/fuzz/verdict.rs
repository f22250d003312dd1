//! Checks of the received answers.

use crate::delivery::{End, ExchangeResult, has_more_than_a_head};
use crate::target::Port;
use crate::wire::{self, Response, find, shown};

/// The answers if they are valid; otherwise the error.
pub(crate) fn judge(
    port: Port,
    sent: &[u8],
    outcome: &ExchangeResult,
) -> Result<Vec<Response>, String> {
    let received = &outcome.received;
    let mut answers = wire::read(received, false);
    // The next answer may be just as long as the body that a HEAD does not get.
    let is_body = |response: &Response| !response.body.starts_with(b"HTTP/1.");
    let is_whole = answers
        .as_ref()
        .is_ok_and(|answers| !answers.is_cut && answers.whole.iter().all(is_body));
    if !is_whole && find(sent, b"HEAD").is_some() {
        answers = wire::read(received, true);
    }
    let answers = answers.map_err(|problem| format!("{problem}\n  in: {}", shown(received)))?;
    match outcome.end {
        End::StillOpen => return Err("neither answered nor closed in time".to_owned()),
        // hyper cuts an answer when it finds that the next request is invalid.
        End::Closed if answers.is_cut && !has_more_than_a_head(sent) => {
            return Err(format!("closed in the middle of: {}", shown(received)));
        }
        _ => {}
    }
    for response in &answers.whole {
        judge_one(port, response).map_err(|problem| format!("{problem}: {}", shown(received)))?;
    }
    Ok(answers.whole)
}

fn judge_one(port: Port, response: &Response) -> Result<(), String> {
    let status = response.status;
    if status < 200 {
        return match status {
            100 => Ok(()),
            _ => Err(format!("unexpected {status}")),
        };
    }
    // The native API refuses transfer codings that it does not implement.
    if status >= 500 && status != 501 && !is_known_500(port, response) {
        return Err(format!("{status} while Redis works"));
    }
    if is_of_the_parser(response) {
        return Ok(());
    }
    let is_redirect = status == 301 || status == 307;
    match response.header("x-request-id") {
        Some(id) if is_request_id(id) => {}
        None if is_redirect => {}
        found => return Err(format!("request id {found:?}")),
    }
    judge_body(port, response)
}

fn judge_body(port: Port, response: &Response) -> Result<(), String> {
    let content_type = response.header("content-type").unwrap_or_default();
    if content_type.starts_with("application/json") {
        let parsed = serde_json::from_slice::<serde_json::Value>(&response.body);
        // The answer to a HEAD has none.
        let json = match parsed {
            Ok(json) => json,
            Err(_) if response.body.is_empty() => return Ok(()),
            Err(error) => return Err(format!("a body that is no JSON ({error})")),
        };
        let is_told = json.get("error").or(json.get("msg")).is_some();
        if port == Port::Public && response.status >= 400 && !is_told {
            return Err("an error without a message".to_owned());
        }
        return Ok(());
    }
    let is_plain = content_type.starts_with("text/");
    match (port, response.status) {
        (_, 204 | 301 | 307) => Ok(()),
        (Port::Admin, 401) if response.body.is_empty() => Ok(()),
        (Port::Admin, _) if is_plain => Ok(()),
        (_, status) => Err(format!("{status} of type {content_type:?}")),
    }
}

/// The parser refuses an invalid request before a handler could add a body or an id.
fn is_of_the_parser(response: &Response) -> bool {
    matches!(response.status, 400 | 414 | 431)
        && response.body.is_empty()
        && response.header("content-type").is_none()
        && response.header("connection") != Some("keep-alive")
}

/// The wire has 500 for a limit that already exists.
fn is_known_500(port: Port, response: &Response) -> bool {
    port == Port::Admin && find(&response.body, b"has already exists").is_some()
}

fn is_request_id(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    text.len() == 26 && text.bytes().all(is_digit)
}
