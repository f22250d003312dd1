//! The sources of a release: version, time, and missing conditions for a release.

use std::process::Command;

use jiff::Timestamp;

use super::io::{failed_at, output};
use crate::workspace::Workspace;

const CHANGELOG: &str = "CHANGELOG.md";
/// <https://reproducible-builds.org/specs/source-date-epoch/>
const TIME_VARIABLE: &str = "SOURCE_DATE_EPOCH";

#[derive(Debug)]
pub(crate) struct SourceState {
    pub(crate) version: String,
    /// The time of all files, in seconds since 1970: `SOURCE_DATE_EPOCH`, or the time of the commit.
    pub(crate) time: u64,
    /// Why this is not ready to be released.
    pub(crate) problems: Vec<String>,
}

impl SourceState {
    pub(crate) fn read(workspace: &Workspace) -> Result<Self, String> {
        let version = version(workspace)?;
        let path = workspace.root().join(CHANGELOG);
        let changelog = std::fs::read_to_string(&path).map_err(failed_at(&path))?;
        let mut problems = Vec::new();
        if !has_section(&changelog, &version) {
            problems.push(format!(
                "{CHANGELOG} has no section \"## {version} - YEAR-MONTH-DAY\" (docs/releasing.md)"
            ));
        }
        match git(workspace, &["status", "--porcelain"]) {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => problems.push(format!(
                "{} files are not committed (git status)",
                changes.lines().count()
            )),
            Err(error) => problems.push(format!("the commit is not known: {error}")),
        }
        let time = match std::env::var(TIME_VARIABLE) {
            Ok(text) => parse_time(&text)?,
            Err(_) => git(workspace, &["log", "-1", "--format=%ct"])
                .and_then(|text| parse_time(&text))
                .map_err(|error| {
                    format!(
                        "the time of the commit is not known: {error}\nset {TIME_VARIABLE} to the seconds since 1970 \
                         that all files shall have"
                    )
                })?,
        };
        Ok(Self {
            version,
            time,
            problems,
        })
    }

    pub(crate) fn timestamp(&self) -> Timestamp {
        // `parse_time` has checked the bounds.
        i64::try_from(self.time)
            .ok()
            .and_then(|seconds| Timestamp::from_second(seconds).ok())
            .unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

fn parse_time(text: &str) -> Result<u64, String> {
    let seconds: Option<i64> = text.trim().parse().ok();
    let seconds = seconds.filter(|seconds| Timestamp::from_second(*seconds).is_ok());
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.ok_or_else(|| format!("{text:?} is no number of seconds since 1970"))
}

fn git(workspace: &Workspace, arguments: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(workspace.root()).args(arguments);
    let printed = output(&mut git)?;
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

fn version(workspace: &Workspace) -> Result<String, String> {
    let path = workspace.root().join("Cargo.toml");
    let text = std::fs::read_to_string(&path).map_err(failed_at(&path))?;
    let manifest: toml::Table = text
        .parse()
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let version = manifest["workspace"]["package"]["version"].as_str();
    let version = version.ok_or_else(|| format!("{} has no version", path.display()))?;
    Ok(version.to_owned())
}

/// Whether a changelog has the heading `## VERSION - YEAR-MONTH-DAY`.
fn has_section(changelog: &str, version: &str) -> bool {
    let mut headings = changelog
        .lines()
        .filter_map(|line| line.strip_prefix("## "));
    headings.any(|heading| {
        heading
            .strip_prefix(version)
            .and_then(|rest| rest.strip_prefix(" - "))
            .is_some_and(|date| date.parse::<jiff::civil::Date>().is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_the_version_and_a_date() {
        let changelog =
            "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n## 0.1.10 - soon\n";
        assert!(has_section(changelog, "0.2.0"));
        for version in ["0.2", "0.1.0", "0.1.10", "2.0", "Unreleased"] {
            assert!(!has_section(changelog, version), "{version}");
        }
    }

    #[test]
    fn a_time_is_a_number_of_seconds() {
        assert_eq!(parse_time("1700000000\n"), Ok(1_700_000_000));
        for text in ["", "-1", "yesterday", "1.5", "99999999999999999"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
