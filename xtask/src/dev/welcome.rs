//! What a person sees when everything runs.

use std::fmt::Write;

use serde_json::Value;

use super::session::Session;
use super::{Options, http};
use crate::workspace::Workspace;

const NAMESPACE: &str = "demo";
const QUEUE: &str = "hello";
/// Marks the token that an earlier run has made.
const DESCRIPTION: &str = "cargo-xtask-dev";

/// A token for the demo namespace: the one of an earlier run, or a new one.
pub(crate) fn token(admin_port: u16) -> Result<String, String> {
    let path = format!("/token/{NAMESPACE}");
    let (status, body) = http::request("GET", admin_port, &path)?;
    if let Some(token) = known_token(&body).filter(|_| status == 200) {
        return Ok(token);
    }
    let (status, body) = http::request(
        "POST",
        admin_port,
        &format!("{path}?description={DESCRIPTION}"),
    )?;
    let answer: Value = serde_json::from_str(&body).unwrap_or_default();
    match answer["token"].as_str() {
        Some(token) if status == 201 => Ok(token.to_owned()),
        _ => Err(format!(
            "the API made no token: it answered {status} {body}"
        )),
    }
}

fn known_token(body: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(body).ok()?;
    let tokens = answer["tokens"].as_object()?;
    tokens
        .iter()
        .find(|(_, description)| description.as_str() == Some(DESCRIPTION))
        .map(|(token, _)| token.clone())
}

pub(crate) fn text(
    options: &Options,
    session: &Session,
    workspace: &Workspace,
    redis: &str,
    token: &str,
) -> String {
    let mut text = String::from("\nTidegate runs. Ctrl-C stops it.\n\n");
    let _ = writeln!(
        text,
        "  API    http://127.0.0.1:{}    admin  http://127.0.0.1:{}",
        options.port, options.admin_port
    );
    let _ = writeln!(text, "  Redis  {redis}");
    for daemon in &session.daemons {
        let log = workspace.shown(daemon.log());
        let _ = writeln!(text, "  log    {log}  (process {})", daemon.pid());
    }
    if let Some(redis) = &session.redis {
        let log = redis.log_path();
        let _ = writeln!(
            text,
            "  log    {}  (process {})",
            workspace.shown(&log),
            redis.pid().unwrap_or_default()
        );
    }
    text.push_str("\nPaste these in another terminal: publish a job that is due in 5 s, wait for it, acknowledge it, ask\n");
    text.push_str("how many are ready.\n\n");
    for line in curl_lines(options.port, token) {
        let _ = writeln!(text, "{line}");
    }
    text.push('\n');
    text
}

fn curl_lines(port: u16, token: &str) -> [String; 4] {
    let queue = format!("http://127.0.0.1:{port}/api/{NAMESPACE}/{QUEUE}");
    [
        format!("curl -s -X PUT '{queue}?delay=5&tries=3&token={token}' -d 'hello, tide'; echo"),
        format!(
            r#"JOB=$(curl -s '{queue}?timeout=10&ttr=60&token={token}' | tee /dev/stderr | sed 's/.*"job_id": *"\([^"]*\)".*/\1/'); echo"#
        ),
        format!(r#"curl -s -X DELETE "{queue}/job/$JOB?token={token}" -w '%{{http_code}}\n'"#),
        format!("curl -s '{queue}/size?token={token}'; echo"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_an_earlier_run_is_known_by_its_description() {
        let body = r#"{"tokens": {"A": "somebody else", "B": "cargo-xtask-dev"}}"#;
        assert_eq!(known_token(body).as_deref(), Some("B"));
        assert_eq!(known_token(r#"{"tokens": {}}"#), None);
        assert_eq!(known_token("api not found"), None);
    }

    #[test]
    fn the_lines_are_one_line_each_and_carry_the_token() {
        for line in curl_lines(7777, "TOKEN") {
            assert!(
                !line.contains('\n') && line.contains("token=TOKEN"),
                "{line}"
            );
        }
    }
}
