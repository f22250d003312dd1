//! The text that is printed once everything is running.

use std::fmt::Write;

use super::http;
use super::options::Options;
use super::session::DevSession;
use crate::workspace::Workspace;

const NAMESPACE: &str = "demo";
const QUEUE: &str = "hello";
/// Fixed, so that the commands in the README work unchanged. It is for one namespace of a server
/// that listens on loopback.
const TOKEN: &str = "demo-token-for-development";

/// Creates the token of the demo namespace, unless an earlier run has done so.
pub(crate) fn make_token(admin_port: u16) -> Result<(), String> {
    let path = format!("/token/{NAMESPACE}?description=cargo-xtask-dev&token={TOKEN}");
    match http::request("POST", admin_port, &path)? {
        (201, _) => Ok(()),
        (400, body) if body.contains("already existed") => Ok(()),
        (status, body) => Err(format!(
            "failed to create a token: the API answered {status} {body}"
        )),
    }
}

pub(crate) fn welcome_text(
    options: &Options,
    session: &DevSession,
    workspace: &Workspace,
    redis: &str,
) -> String {
    let mut text = String::from("\nTidegate is running. Ctrl-C stops it.\n\n");
    let _ = writeln!(
        text,
        "  API    http://127.0.0.1:{}    admin  http://127.0.0.1:{}",
        options.port, options.admin_port
    );
    let _ = writeln!(text, "  Redis  {redis}");
    for daemon in &session.daemons {
        let log = workspace.display(daemon.log());
        let _ = writeln!(text, "  log    {log}  (process {})", daemon.pid());
    }
    let nodes = session.cluster.iter().flat_map(|cluster| &cluster.servers);
    for redis in session.redis.iter().chain(nodes) {
        let log = redis.log_path();
        let _ = writeln!(
            text,
            "  log    {}  (process {})",
            workspace.display(&log),
            redis.pid().unwrap_or_default()
        );
    }
    text.push_str("\nPaste these commands in another terminal. They publish a job that is due in 5 s, wait for it, acknowledge\n");
    text.push_str("it, and show the number of ready jobs.\n\n");
    for line in curl_lines(options.port) {
        let _ = writeln!(text, "{line}");
    }
    text.push('\n');
    text
}

fn curl_lines(port: u16) -> [String; 4] {
    let queue = format!("http://127.0.0.1:{port}/api/{NAMESPACE}/{QUEUE}");
    [
        format!("curl -s -X PUT '{queue}?delay=5&tries=3&token={TOKEN}' -d 'hello, tide'; echo"),
        format!(
            r#"JOB=$(curl -s '{queue}?timeout=10&ttr=60&token={TOKEN}' | tee /dev/stderr | sed 's/.*"job_id": *"\([^"]*\)".*/\1/'); echo"#
        ),
        format!(r#"curl -s -X DELETE "{queue}/job/$JOB?token={TOKEN}" -w '%{{http_code}}\n'"#),
        format!("curl -s '{queue}/size?token={TOKEN}'; echo"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_the_same_commands() {
        let readme = include_str!("../../../README.md");
        for line in curl_lines(7777) {
            assert!(readme.contains(&line), "README.md lacks {line}");
        }
    }
}
