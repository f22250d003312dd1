//! Expected texts with variables, some of which take their value from the answer.
//!
//! | variable | stands for |
//! |---|---|
//! | `$name` | the value that is known under this name |
//! | `$id:name` | a job id in its short form, from now on known as `$name` |
//! | `$id1:name` | a job id in its versioned form, from now on known as `$name` |
//! | `$token:name` | a generated token: 26 digits or capital letters, from now on known as `$name` |
//! | `$int` | any number |
//! | `$int:0-50` | a number in this range |
//! | `$ttl:60` | a time to live of 60 seconds, or of up to ten fewer: a slow machine answers later |
//!
//! Everything else must be there byte for byte.

use std::collections::HashMap;

pub(crate) type Values = HashMap<String, String>;

const CROCKFORD: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ULID_CHARACTERS: usize = 26;
/// The most seconds between a publish and the answer that has the job's time to live.
const AGE_MAX_S: u64 = 10;

/// Replaces the variables in the text of a request by their values.
pub(crate) fn fill(text: &str, values: &Values) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        let (name, after) = name(after);
        let known = values.get(name);
        filled.push_str(before);
        filled.push_str(known.unwrap_or_else(|| panic!("${name} is not known yet: {text}")));
        rest = after;
    }
    filled + rest
}

/// Compares an answer with the expected text, and stores the values of new variables.
pub(crate) fn compare(expected: &str, found: &str, values: &mut Values) -> Result<(), String> {
    let mut expected_rest = expected;
    let mut found_rest = found;
    loop {
        let literal = expected_rest.split('$').next().unwrap_or_default();
        let Some(after_literal) = found_rest.strip_prefix(literal) else {
            return Err(format!("expected {literal:?} at {found_rest:?}"));
        };
        found_rest = after_literal;
        expected_rest = &expected_rest[literal.len()..];
        let Some(place) = expected_rest.strip_prefix('$') else {
            break;
        };
        let (kind, after) = name(place);
        let (argument, after) = match after.strip_prefix(':') {
            Some(after) if matches!(kind, "id" | "id1" | "token" | "int" | "ttl") => {
                argument(after)
            }
            _ => ("", after),
        };
        found_rest = take(kind, argument, found_rest, values)?;
        expected_rest = after;
    }
    if found_rest.is_empty() {
        Ok(())
    } else {
        Err(format!("unexpected {found_rest:?} at the end"))
    }
}

/// Reads the value of a variable, and returns the text that follows it.
fn take<'a>(
    kind: &str,
    argument: &str,
    found: &'a str,
    values: &mut Values,
) -> Result<&'a str, String> {
    match kind {
        "int" => take_number(argument, found),
        "ttl" => {
            let full: u64 = argument.parse().unwrap();
            let range = format!("{}-{full}", full.saturating_sub(AGE_MAX_S));
            take_number(&range, found)
        }
        "id" if !argument.is_empty() => take_ulid(0, argument, found, values),
        "token" if !argument.is_empty() => take_text(is_token, 26, argument, found, values),
        "id1" if found.starts_with('1') => take_ulid(1, argument, found, values),
        "id1" => Err(format!("expected a versioned id at {found:?}")),
        known => {
            let value = values
                .get(known)
                .unwrap_or_else(|| panic!("${known} is not known yet"));
            let after = found.strip_prefix(value.as_str());
            after.ok_or_else(|| format!("expected ${known} = {value:?} at {found:?}"))
        }
    }
}

fn take_number<'a>(range: &str, found: &'a str) -> Result<&'a str, String> {
    let digits = found.chars().take_while(char::is_ascii_digit).count();
    let number: u64 = found[..digits]
        .parse()
        .map_err(|_| format!("expected a number at {found:?}"))?;
    if let Some((low, high)) = range.split_once('-') {
        let range = low.parse().unwrap()..=high.parse().unwrap();
        if !range.contains(&number) {
            return Err(format!("{number} is not in {range:?}"));
        }
    }
    Ok(&found[digits..])
}

fn take_ulid<'a>(
    prefix: usize,
    name: &str,
    found: &'a str,
    values: &mut Values,
) -> Result<&'a str, String> {
    let has_form = |text: &str| is_ulid(&text[prefix..]);
    take_text(has_form, prefix + ULID_CHARACTERS, name, found, values)
}

fn take_text<'a>(
    has_form: impl Fn(&str) -> bool,
    length: usize,
    name: &str,
    found: &'a str,
    values: &mut Values,
) -> Result<&'a str, String> {
    match found.get(..length) {
        Some(text) if has_form(text) => {
            values.insert(name.to_owned(), text.to_owned());
            Ok(&found[length..])
        }
        _ => Err(format!("expected ${name} at {found:?}")),
    }
}

fn is_token(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_digit() || c.is_ascii_uppercase())
}

/// Whether a text has the form of a ULID.
pub(crate) fn is_ulid(text: &str) -> bool {
    text.len() == ULID_CHARACTERS && text.chars().all(|c| CROCKFORD.contains(c))
}

fn name(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    text.split_at(end.unwrap_or(text.len()))
}

fn argument(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
    text.split_at(end.unwrap_or(text.len()))
}
