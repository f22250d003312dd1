//! The sessions of docs/cli.md print what the page shows.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tidegate_testkit::{RedisOptions, Stack, same_answer};

use super::command_line::CommandLine;
use super::sessions::sessions;

const PAGE: &str = include_str!("../../../../docs/cli.md");
/// The addresses in the page.
const ADMIN: &str = "http://127.0.0.1:7778";

/// The words of a text, with a sign instead of each part that differs from run to run: ids, secrets, times, revisions,
/// addresses. Durations are left out: "59m 59s" may be "1h".
fn words(text: &str) -> Vec<String> {
    let is_of = |word: &str, length: usize| {
        let mut letters = word.chars();
        word.len() == length && letters.all(|it| it.is_ascii_digit() || it.is_ascii_uppercase())
    };
    let sign = |word: &str| {
        let bare = word.trim_matches(|letter: char| letter.is_ascii_punctuation());
        let is_time = word.len() == 24 && word.ends_with('Z') && word.contains('T');
        let is_revision = word.split_once('.').is_some_and(|(number, tag)| {
            number.parse::<u64>().is_ok() && tag.len() == 8 && u32::from_str_radix(tag, 16).is_ok()
        });
        match word {
            _ if is_revision => "REVISION".to_owned(),
            _ if is_of(bare, 26) || is_of(bare, 12) => "ID".to_owned(),
            _ if is_time => "TIME".to_owned(),
            _ if word.starts_with("tg_") => "SECRET".to_owned(),
            _ if word.starts_with("http://127.0.0.1:") => "URL".to_owned(),
            _ => word.to_owned(),
        }
    };
    let is_duration = |word: &&str| {
        let unit = word.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let unit = unit.trim_end_matches('.');
        unit.len() < word.len() && ["ms", "s", "m", "h", "d"].contains(&unit)
    };
    let words = text.split_whitespace().filter(|word| !is_duration(word));
    words.map(sign).collect()
}

#[tokio::test]
async fn the_sessions_of_the_page_print_what_it_shows() {
    let redis = RedisOptions::new().setting("maxmemory", "1gb");
    let stack = Stack::builder().redis(redis).start().await;
    let cli = CommandLine::connected(&stack, "demo").await;
    let sessions = sessions(PAGE);
    assert!(sessions.len() >= 10, "{sessions:?}");
    let program = Path::new(env!("CARGO_BIN_EXE_tidegate"));
    for (arguments, shown) in sessions {
        let script = format!("{program:?} {arguments}").replace(ADMIN, &stack.api(0).admin_url());
        let mut command = Command::new("bash");
        command
            .args(["-euc", &script])
            .env("TG_URL", &cli.url)
            .env("TG_KEY", &cli.key)
            .env("TG_NAMESPACE", cli.namespace);
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments}: {error}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let json = |text: &str| serde_json::from_str::<Value>(text);
        match (json(&shown), json(&printed)) {
            (Ok(shown), Ok(printed)) => same_answer(&shown, &printed).unwrap(),
            _ => assert_eq!(words(&printed), words(&shown), "{arguments}: {printed}"),
        }
    }
    stack.finish().await;
}
