//! The session that `dev` prints works, and documents show it with its answers.

use std::process::Command;

use serde_json::Value;
use tidegate_local_deployment::credentials::make_credentials;
use tidegate_testkit::{Stack, same_answer};

use super::session;

const README: &str = include_str!("../../../../README.md");
const FROM_LMSTFY: &str = include_str!("../../../../docs/from-lmstfy.md");
/// The port of `dev`, which documents show.
const PORT: &str = "7777";

/// The commands of the first shell session in a document, and the answers that it shows behind them.
fn session_in(document: &str) -> (String, Vec<String>) {
    let begin = document.find("```sh\n").expect("a session") + "```sh\n".len();
    let block = &document[begin..];
    let block = &block[..block.find("```").expect("the end of the session")];
    let (mut commands, mut answers) = (String::new(), Vec::new());
    for line in block.lines() {
        match line.strip_prefix("# ") {
            Some(answer) => answers.push(answer.to_owned()),
            None => commands += &format!("{line}\n"),
        }
    }
    (commands, answers)
}

/// Runs commands of a document on a deployment, and compares their output with the answers in the document.
fn run(commands: &str, documented: &[String], port: u16) {
    let commands = commands.replace(PORT, &port.to_string());
    let output = Command::new("bash")
        .args(["-euc", &format!("exec 2>&1\n{commands}")])
        .output()
        .expect("bash runs");
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), documented.len(), "{printed}");
    for (documented, line) in documented.iter().zip(lines) {
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| text.into());
        if let Err(difference) = same_answer(&json(documented), &json(line)) {
            panic!("{difference}\ndocumented: {documented}\nprinted:    {line}");
        }
    }
}

#[test]
fn the_readme_has_the_printed_session() {
    assert_eq!(session_in(README).0, session(7777));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sessions_of_the_documents_work() {
    let stack = Stack::builder().start().await;
    let api = stack.api(0);
    // `dev` may be started again on the same data.
    for _ in 0..2 {
        make_credentials(api.admin().port()).unwrap();
    }
    for document in [README, FROM_LMSTFY] {
        let (commands, answers) = session_in(document);
        run(&commands, &answers, api.listen().port());
    }
    stack.finish().await;
}
