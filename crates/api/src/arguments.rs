//! Translates the command-line flags of lmstfy.
//!
//! lmstfy follows Go's flag syntax: one or two dashes before a name of several letters, and the value after
//! `=` or as the next argument. The flags are translated before clap parses the command line.

use std::ffi::{OsStr, OsString};

/// A flag of lmstfy, the flag of this program, and whether it takes a value.
const FLAGS: [(&str, &str, bool); 5] = [
    ("c", "--lmstfy-config", true),
    ("p", "--pid-file", true),
    ("bt", "--bt", true),
    ("sv", "--skip-token-checks", false),
    ("v", "--version", false),
];

/// The texts that Go parses as true and as false.
const TRUE: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];
const FALSE: [&str; 6] = ["0", "f", "F", "false", "FALSE", "False"];

/// Returns the command line with lmstfy's flags translated. The first argument, which is the name of the program,
/// and all arguments that are not flags of lmstfy are unchanged.
pub fn translate(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let mut translated: Vec<OsString> = arguments.next().into_iter().collect();
    while let Some(argument) = arguments.next() {
        match flag(&argument) {
            Some((ours, true, None)) => {
                // The next argument is the value, even if it looks like a flag.
                let value = arguments.next();
                translated
                    .push(value.map_or_else(|| ours.into(), |value| with_value(ours, &value)));
            }
            Some((ours, true, Some(value))) => translated.push(with_value(ours, OsStr::new(value))),
            Some((ours, false, value)) => match value {
                Some(value) if FALSE.contains(&value) => {}
                Some(value) if !TRUE.contains(&value) => {
                    translated.push(with_value(ours, OsStr::new(value)));
                }
                _ => translated.push(ours.into()),
            },
            None => translated.push(argument),
        }
    }
    translated
}

/// The flag of this program, whether it takes a value, and the value if it is in the same argument.
fn flag(argument: &OsStr) -> Option<(&'static str, bool, Option<&str>)> {
    let text = argument.to_str()?.strip_prefix('-')?;
    let text = text.strip_prefix('-').unwrap_or(text);
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let (_, ours, has_value) = FLAGS.iter().find(|(theirs, _, _)| *theirs == name)?;
    Some((ours, *has_value, value))
}

fn with_value(flag: &str, value: &OsStr) -> OsString {
    let mut whole = OsString::from(flag);
    whole.push("=");
    whole.push(value);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(given: &str, translated: &str) {
        let words = |text: &str| {
            text.split_whitespace()
                .map(OsString::from)
                .collect::<Vec<_>>()
        };
        assert_eq!(translate(words(given)), words(translated), "{given}");
    }

    #[test]
    fn lmstfy_flags_are_translated() {
        expect(
            "api -c conf/config.toml -p run/lmstfy.pid -sv -bt info",
            "api --lmstfy-config=conf/config.toml --pid-file=run/lmstfy.pid --skip-token-checks --bt=info",
        );
        expect("api -v", "api --version");
        expect(
            "api --c x --p=y -bt=warn --v",
            "api --lmstfy-config=x --pid-file=y --bt=warn --version",
        );
        expect("api -c=a=b", "api --lmstfy-config=a=b");
        expect("api -c -p", "api --lmstfy-config=-p");
        expect("api -p", "api --pid-file");
    }

    #[test]
    fn switches_accept_the_boolean_texts_of_go() {
        expect(
            "api -sv=true -sv=1 -sv=T",
            "api --skip-token-checks --skip-token-checks --skip-token-checks",
        );
        expect("api -sv=false -sv=0 -v=F", "api");
        expect("api -sv=maybe", "api --skip-token-checks=maybe");
    }

    #[test]
    fn other_arguments_are_unchanged() {
        let ours = "api --config x --listen 127.0.0.1:1 --print-config -h -V -- -x --cc -svv";
        expect(ours, ours);
        expect("-c", "-c");
    }
}
