//! The examples of docs/api.md, run against a server: each has the status and the answer that the page shows.
//!
//! An example is a block of `sh` with one `curl`, followed by a block of `json` or `text` with the status and the body.
//! Blocks of `sh` without an answer are settings for all examples behind them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tidegate_testkit::{NativeClient, Stack, same_answer};

const GUIDE: &str = include_str!("../../../docs/api.md");
/// The address in the settings of the page.
const ADDRESS: &str = "127.0.0.1:7777";
/// Keeps head and body of each answer, and prints the status.
const CURL: &str =
    r#"curl() { command curl -sS -D "$OUT/head" -o "$OUT/body" -w '%{http_code}' "$@"; }"#;
const EXAMPLES_MIN: usize = 50;

/// A block of the page.
struct GuideBlock<'a> {
    /// The line of its fence, from 1.
    line: usize,
    language: &'a str,
    text: String,
}

fn blocks(page: &str) -> Vec<GuideBlock<'_>> {
    let mut blocks: Vec<GuideBlock<'_>> = Vec::new();
    let mut is_inside = false;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), blocks.last_mut()) {
            (Some(_), _) if is_inside => is_inside = false,
            (Some(language), _) => {
                is_inside = true;
                blocks.push(GuideBlock {
                    line: index + 1,
                    language,
                    text: String::new(),
                });
            }
            (None, Some(block)) if is_inside => block.text += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    assert!(!is_inside, "a block has no end");
    blocks
}

/// Runs examples in their order, and keeps what later ones refer to.
struct ExampleRunner {
    folder: tempfile::TempDir,
    key: String,
    settings: String,
    variables: BTreeMap<&'static str, String>,
}

/// What a server answered.
struct ExampleAnswer {
    status: String,
    head: String,
    body: String,
}

impl ExampleRunner {
    fn run(&mut self, commands: &str) -> ExampleAnswer {
        let variables = self.variables.iter();
        let variables: String = variables
            .map(|(name, value)| format!("{name}='{value}'\n"))
            .collect();
        let script = format!("{CURL}\n{}{variables}{commands}", self.settings);
        let ran = Command::new("bash")
            .args(["-euc", &script])
            .env("OUT", self.folder.path())
            .env("TG_KEY", &self.key)
            .output()
            .expect("bash runs");
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{commands}{errors}");
        let answer = ExampleAnswer {
            status: String::from_utf8(ran.stdout).unwrap(),
            head: read(&self.folder.path().join("head")),
            body: read(&self.folder.path().join("body")),
        };
        self.remember(&answer);
        answer
    }

    fn remember(&mut self, answer: &ExampleAnswer) {
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let lease = text(&body["jobs"][0]["lease"]);
        let found = [
            ("LEASE", lease.or_else(|| answer.header("tidegate-lease"))),
            ("ETAG", answer.header("etag")),
            ("KEY_ID", text(&body["key"]["id"])),
        ];
        for (name, value) in found {
            if let Some(value) = value {
                self.variables.insert(name, value);
            }
        }
    }
}

impl ExampleAnswer {
    fn header(&self, name: &str) -> Option<String> {
        let headers = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut values = headers.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.trim().to_owned())
    }

    /// The first difference from the answer that the page shows.
    fn difference(&self, documented: &GuideBlock<'_>) -> Result<(), String> {
        let (status, body) = documented
            .text
            .split_once(' ')
            .expect("a status and a body");
        if status != self.status {
            return Err(format!("the status is {}", self.status));
        }
        match documented.language {
            "json" => {
                let json = |text| serde_json::from_str(text).map_err(|error| error.to_string());
                same_answer(&json(body)?, &json(&self.body)?)
            }
            _ if body.trim_end() == self.body => Ok(()),
            _ => Err("the body differs".to_owned()),
        }
    }
}

/// The text of a file; of an answer without a body there is none.
fn read(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let _ = std::fs::remove_file(path);
    text
}

#[tokio::test]
async fn the_examples_of_the_guide_are_answered_as_it_shows() {
    let stack = Stack::builder().start().await;
    let api = stack.api(0);
    let client = NativeClient::new(api, "shop").await;
    let address = api.listen().to_string();
    let mut runner = ExampleRunner {
        folder: tempfile::tempdir().unwrap(),
        key: client.key().to_owned(),
        settings: String::new(),
        variables: BTreeMap::new(),
    };
    let examples = tokio::task::spawn_blocking(move || {
        let (blocks, mut examples) = (blocks(GUIDE), 0);
        let mut following = blocks.iter().peekable();
        while let Some(block) = following.next() {
            assert_eq!(block.language, "sh", "docs/api.md:{}", block.line);
            let Some(documented) = following.next_if(|next| next.language != "sh") else {
                runner.settings += &block.text.replace(ADDRESS, &address);
                continue;
            };
            assert_eq!(block.text.matches("curl ").count(), 1, "{}", block.text);
            let answer = runner.run(&block.text);
            if let Err(difference) = answer.difference(documented) {
                let (line, status, body) = (documented.line, answer.status, answer.body);
                panic!("docs/api.md:{line}: {difference}\nthe answer is {status} {body}");
            }
            examples += 1;
        }
        examples
    });
    let examples = examples.await.unwrap();
    assert!(examples >= EXAMPLES_MIN, "{examples} examples");
    stack.finish().await;
}
