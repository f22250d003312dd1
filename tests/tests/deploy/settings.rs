//! The settings that a daemon reports for a command line and an environment.

use std::time::Duration;

use tidegate_testkit::{DaemonProgram, run_until_exit_with};

const LIMIT: Duration = Duration::from_secs(30);

/// Returns what `--print-config` prints.
///
/// # Panics
/// If the daemon rejects an argument or a variable, or ignores one.
pub(crate) async fn in_effect(
    program: DaemonProgram,
    arguments: &[String],
    environment: &[(String, String)],
) -> toml::Table {
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.push("--print-config");
    let borrowed: Vec<(&str, &str)> = environment
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let exit = run_until_exit_with(program, &arguments, &borrowed, LIMIT).await;
    assert_eq!(
        exit.code,
        Some(0),
        "{} {arguments:?}: {}",
        program.name(),
        exit.log
    );
    // A variable that is no setting is a warning, in a comment.
    let is_ignored = exit.log.contains(" is ignored: ");
    assert!(!is_ignored, "{} {borrowed:?}: {}", program.name(), exit.log);
    exit.log
        .parse()
        .unwrap_or_else(|error| panic!("{} {borrowed:?}: {error}\n{}", program.name(), exit.log))
}

/// Returns a setting that is a string.
///
/// # Panics
/// If there is none.
pub(crate) fn text<'a>(settings: &'a toml::Table, key: &str) -> &'a str {
    let value = settings.get(key).and_then(toml::Value::as_str);
    value.unwrap_or_else(|| panic!("{key} is missing in {settings:?}"))
}

/// Returns a duration.
///
/// # Panics
/// If there is none.
pub(crate) fn duration(settings: &toml::Table, key: &str) -> Duration {
    tidegate_core::duration::parse(text(settings, key)).unwrap()
}
