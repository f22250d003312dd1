//! Texts of servers and publishers, and lists without end.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::{Value, json};

use super::SERVER;
use super::command_line::CommandLine;

const CONTROLS: [char; 5] = ['\u{1b}', '\u{7f}', '\u{9b}', '\u{202e}', '\u{2028}'];

/// The text has none of the characters that a terminal obeys.
fn assert_visible(text: &str) {
    for control in CONTROLS {
        assert!(!text.contains(control), "{control:?}: {text:?}");
    }
}

/// A command line whose server answers each request with this.
fn answered_with(status: &'static str, body: &Value) -> CommandLine {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let media = match status {
        "200 OK" => "application/json",
        _ => "application/problem+json",
    };
    let (body, length) = (body.to_string(), body.to_string().len());
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            // A request fits into a read.
            let _ = client.read(&mut [0; 16 * 1024]);
            let _ = client.write_all(answer.as_bytes());
        }
    });
    CommandLine::unconnected(&url, "k-of-no-server")
}

#[test]
fn texts_of_a_server_have_no_control_characters() {
    let foreign: String = CONTROLS.iter().collect();
    let problem = json!({
        "type": "urn:tidegate:problem:forbidden", "title": "Forbidden", "status": 403, "code": "forbidden",
        "detail": format!("x{foreign}\nforged: line"), "instance": "i", "applied": "no",
    });
    let cli = answered_with("403 Forbidden", &problem);
    for arguments in [
        &["queue", "ls"][..],
        &["job", "show", "q", "key:k"],
        &["tail", "q"],
    ] {
        let error = cli.error(1, arguments);
        assert_visible(&error);
        assert!(
            error.contains("x\\u001b\\u007f\\u009b\\u202e\\u2028\\nforged: line"),
            "{error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let other = json!({"detail": format!("y{foreign}")});
    let error = answered_with("502 Bad Gateway", &other).error(1, &["queue", "purge", "q"]);
    assert_visible(&error);
}

#[test]
fn a_list_whose_cursor_repeats_ends_with_an_error() {
    let page = json!({"items": [], "next": "again"});
    let cli = answered_with("200 OK", &page);
    for arguments in [
        &["queue", "ls"][..],
        &["key", "ls"],
        &["schedule", "ls"],
        &["job", "ls", "q"],
        &["tail", "q"],
    ] {
        let error = cli.error(1, arguments);
        assert!(
            error.contains("the cursor again came twice"),
            "{arguments:?}: {error}"
        );
    }
    let acted = json!({"matched": 1, "changed": 0, "next": "0.0", "wait_ms": 0});
    let error = answered_with("200 OK", &acted).error(1, &["job", "act", "q", "respawn"]);
    assert!(error.contains("the cursor 0.0 came twice"), "{error}");
}

/// The texts that publishers have stored.
#[tokio::test]
async fn attributes_and_errors_of_jobs_are_shown_without_control_characters() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "foreign").await;
    let foreign = format!("note=user{}nimda", '\u{202e}');
    cli.out(&["publish", "f", "{}", "--key", "k", "--attr", &foreign]);
    let shown = cli.out(&["job", "show", "f", "key:k"]);
    assert_visible(&shown);
    assert!(shown.contains("user\\u202enimda"), "{shown}");
    let as_json = cli.out(&["job", "show", "f", "key:k", "--json"]);
    assert_visible(&as_json);
    assert!(as_json.contains("user\\u202enimda"), "{as_json}");
    let read: Value = serde_json::from_str(&as_json).unwrap();
    assert_eq!(read["attributes"]["note"], "user\u{202e}nimda");
}
