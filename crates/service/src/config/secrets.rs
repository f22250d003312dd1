//! Which values nobody is shown.

use std::borrow::Cow;
use std::ops::Range;

use toml::Value;

/// What is shown instead of a secret.
pub(super) const HIDDEN: &str = "<hidden>";

/// Whether the value of this key is a secret as a whole: passwords, and everything about accounts.
pub(super) fn is_secret(path: &[&str]) -> bool {
    path.first() == Some(&"accounts") || path.last().is_some_and(|key| key.contains("password"))
}

/// A text without the password of the URL that it may be: `redis://user:password@host`, or
/// `redis+unix:///path?pass=password`.
pub(super) fn without_password(text: &str) -> Cow<'_, str> {
    match password_of_url(text) {
        Some(place) => Cow::Owned([&text[..place.start], HIDDEN, &text[place.end..]].concat()),
        None => Cow::Borrowed(text),
    }
}

/// Everything in this value that must not be shown.
pub(super) fn secrets_in(path: &[&str], value: &Value) -> Vec<String> {
    match value {
        Value::Table(table) => {
            let inner = table.iter().flat_map(|(key, value)| {
                let path: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
                secrets_in(&path, value)
            });
            inner.collect()
        }
        Value::Array(values) => {
            let inner = values.iter().flat_map(|value| secrets_in(path, value));
            inner.collect()
        }
        Value::String(text) if is_secret(path) => vec![text.clone()],
        Value::String(text) => {
            let password = password_of_url(text).map(|place| text[place].to_owned());
            password.into_iter().collect()
        }
        other if is_secret(path) => vec![other.to_string()],
        _ => Vec::new(),
    }
}

/// Where the password of a URL is, if it has one.
fn password_of_url(text: &str) -> Option<Range<usize>> {
    let begin = text.find("://")? + "://".len();
    // A password may have an @ in it, though it should not.
    let place = if let Some(end) = text.rfind('@').filter(|end| *end >= begin) {
        let colon = text[begin..end].find(':')?;
        begin + colon + 1..end
    } else {
        let query = text.find('?')?;
        let sign = text[query..].match_indices("pass=");
        let is_key = |at: usize| text[..at].ends_with(['?', '&']);
        let (at, name) = sign
            .map(|(at, name)| (query + at, name))
            .find(|(at, _)| is_key(*at))?;
        let start = at + name.len();
        let length = text[start..].find('&').unwrap_or(text.len() - start);
        start..start + length
    };
    (!place.is_empty()).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_of_a_url_is_left_out() {
        for (url, shown) in [
            ("redis://h:6379/1", "redis://h:6379/1"),
            ("redis://u:p@h:6379", "redis://u:<hidden>@h:6379"),
            ("redis://:p@h", "redis://:<hidden>@h"),
            ("rediss://u:a@b:c@h", "rediss://u:<hidden>@h"),
            ("redis://u@h", "redis://u@h"),
            (
                "redis+unix:///run/r?user=u&pass=p&db=1",
                "redis+unix:///run/r?user=u&pass=<hidden>&db=1",
            ),
            ("plain text: no url@all", "plain text: no url@all"),
        ] {
            assert_eq!(without_password(url), shown, "{url}");
        }
    }

    #[test]
    fn passwords_and_accounts_are_secrets() {
        assert!(is_secret(&["accounts", "ops"]));
        assert!(is_secret(&["accounts"]));
        assert!(is_secret(&["pool", "default", "password"]));
        assert!(is_secret(&["pool", "default", "sentinel_password"]));
        assert!(!is_secret(&["pool", "default", "username"]));
    }
}
