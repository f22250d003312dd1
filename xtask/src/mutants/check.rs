//! A check: a test or a fault run that may catch a mutant.

use std::fmt;

use serde::Deserialize;

/// Begin of a test command. Its filter must end with the name of a function:
/// `hints::far_jobs_become_due_and_cancelled_ones_do_not`.
const TEST: &str = "cargo test -p ";
const FEATURES: &str = "--features";
const FAULTS: &str = "cargo xtask faults ";

/// A command of the list, which can be pasted into a shell.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum MutantCheck {
    /// `cargo test -p PACKAGE --test TARGET FILTER`, or with `--lib` instead of `--test TARGET`; `--features FEATURE`
    /// may follow the package.
    Test {
        package: String,
        /// A feature of the package that is off by default.
        feature: Option<String>,
        /// `None`: the unit tests of the library.
        target: Option<String>,
        filter: String,
    },
    /// `cargo xtask faults FLAGS`, with the harness and the daemons of the dev profile.
    Faults { flags: Vec<String> },
}

impl TryFrom<String> for MutantCheck {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl MutantCheck {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "`{text}` is neither `{TEST}PACKAGE --test TARGET FILTER`, `{TEST}PACKAGE --lib FILTER` nor `{FAULTS}FLAGS`"
            )
        };
        if let Some(flags) = text.strip_prefix(FAULTS) {
            let flags = flags.split_whitespace().map(str::to_owned).collect();
            return Ok(Self::Faults { flags });
        }
        let rest = text.strip_prefix(TEST).ok_or_else(refused)?;
        let words: Vec<&str> = rest.split(' ').collect();
        let (feature, words) = match words[..] {
            [package, FEATURES, feature, ref rest @ ..] => {
                (Some(feature.to_owned()), [&[package], rest].concat())
            }
            _ => (None, words),
        };
        let (package, target, filter) = match words[..] {
            [package, "--test", target, filter] => (package, Some(target.to_owned()), filter),
            [package, "--lib", filter] => (package, None, filter),
            _ => return Err(refused()),
        };
        Ok(Self::Test {
            package: package.to_owned(),
            feature,
            target,
            filter: filter.to_owned(),
        })
    }

    /// Returns the test function that the check runs; `None` for a fault run.
    pub(crate) fn function(&self) -> Option<&str> {
        match self {
            Self::Test { filter, .. } => filter.rsplit("::").next(),
            Self::Faults { .. } => None,
        }
    }

    /// Returns the programs that must be built besides the check itself.
    pub(super) fn programs(&self) -> &'static [&'static str] {
        match self {
            Self::Test { target: None, .. } => &[],
            // The only suite without daemons.
            Self::Test {
                target: Some(target),
                ..
            } if target == "store" => &[],
            Self::Test { .. } => &["tidegate-api", "tidegate-pumpd"],
            Self::Faults { .. } => &["tidegate-api", "tidegate-pumpd", "tidegate-faults"],
        }
    }
}

impl fmt::Display for MutantCheck {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test {
                package,
                feature,
                target,
                filter,
            } => {
                write!(out, "{TEST}{package} ")?;
                if let Some(feature) = feature {
                    write!(out, "{FEATURES} {feature} ")?;
                }
                match target {
                    Some(target) => write!(out, "--test {target} {filter}"),
                    None => write!(out, "--lib {filter}"),
                }
            }
            Self::Faults { flags } => write!(out, "{FAULTS}{}", flags.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_displayed_as_parsed() {
        for text in [
            "cargo test -p tidegate-tests --test store hints::far_jobs",
            "cargo test -p tidegate-api --lib waiters::seat",
            "cargo test -p tidegate-relayd --features kafka --test relay kafka::large",
            "cargo xtask faults --class pump-kill --seed 7 --seconds 10",
        ] {
            assert_eq!(MutantCheck::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_commands_are_rejected() {
        for text in [
            "cargo test",
            "cargo test -p tidegate-tests --test store",
            "cargo test -p tidegate-relayd --features kafka",
            "cargo build",
        ] {
            assert!(MutantCheck::parse(text).is_err(), "{text}");
        }
    }
}
