//! Which values nobody is shown.

use std::borrow::Cow;
use std::ops::Range;

use toml::Value;

/// What is shown instead of a secret.
pub(super) const HIDDEN: &str = "<hidden>";

/// Keys whose values are URLs, or should be.
const ADDRESSES: [&str; 3] = ["url", "cluster", "sentinels"];

/// Names in the query of a URL whose values are shown.
const HARMLESS: [&str; 3] = ["db", "user", "protocol"];

/// Whether the value of this key is a secret as a whole: passwords, and everything about accounts.
pub(super) fn is_secret(path: &[&str]) -> bool {
    path.first() == Some(&"accounts") || path.last().is_some_and(|key| key.contains("password"))
}

/// A text without the passwords of the URLs that it may be made of: `redis://user:password@host`,
/// `redis+unix:///path?pass=password`, several with commas between them. Where it is not clear what is a password
/// everything that may be one is left out.
pub(super) fn without_password<'a>(path: &[&str], text: &'a str) -> Cow<'a, str> {
    let places = passwords(path, text);
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    let mut end = 0;
    for place in places {
        shown.push_str(&text[end..place.start]);
        shown.push_str(HIDDEN);
        end = place.end;
    }
    shown.push_str(&text[end..]);
    Cow::Owned(shown)
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
            let places = passwords(path, text).into_iter();
            places.map(|place| text[place].to_owned()).collect()
        }
        other if is_secret(path) => vec![other.to_string()],
        _ => Vec::new(),
    }
}

/// Where passwords are, from first to last.
fn passwords(path: &[&str], text: &str) -> Vec<Range<usize>> {
    let is_address = path.last().is_some_and(|key| ADDRESSES.contains(key));
    let begin = match text.find("://") {
        Some(at) => at + "://".len(),
        // Without a scheme by mistake, or with a single slash.
        None if is_address => 0,
        None => return Vec::new(),
    };
    let behind = |place: &str| text[begin..].find(place).map(|at| begin + at + 1);
    // A password may have an @ in it, though it should not.
    let host = text.rfind('@').filter(|at| *at >= begin);
    let colon = behind(":").filter(|colon| host.is_some_and(|host| *colon <= host));
    let query = behind("?");
    let mut places = Vec::new();
    match (host, query) {
        // An @ in a value of the query, or a ? in a password.
        (Some(host), Some(query)) if host > query => {
            places.push(colon.unwrap_or(query).min(query)..text.len());
        }
        (Some(host), _) => {
            places.extend(colon.map(|colon| colon..host));
            places.extend(values_of_query(text, query));
        }
        (None, _) => places.extend(values_of_query(text, query)),
    }
    places.retain(|place| !place.is_empty());
    places
}

/// The values of a query that may be passwords. A name may be written in several ways (`p%61ss`), so those are
/// listed that are known to have no secret in them.
fn values_of_query(text: &str, query: Option<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut end = query.unwrap_or(text.len());
    let pairs = text[end..].split('&').map(move |pair| {
        let begin = end;
        end = begin + pair.len() + 1;
        (begin, pair)
    });
    pairs.filter_map(|(begin, pair)| {
        let (name, value) = pair.split_once('=')?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let is_harmless = HARMLESS.contains(&name) && value.chars().all(is_plain);
        let value = begin + name.len() + 1..begin + pair.len();
        (!is_harmless).then_some(value)
    })
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
            ("unix:/run/r?pass=p", "unix:/run/r?pass=<hidden>"),
            ("u:p@h:6379", "u:<hidden>@h:6379"),
            ("h:6379,i:6379", "h:6379,i:6379"),
            ("REDIS://u:p@h", "REDIS://u:<hidden>@h"),
            ("redis://u:p@h?pass=q", "redis://u:<hidden>@h?pass=<hidden>"),
            ("unix:///r?p%61ss=p&db=1", "unix:///r?p%61ss=<hidden>&db=1"),
            ("unix:///r?PASS=p", "unix:///r?PASS=<hidden>"),
            ("unix:///r?pass=p@q", "unix:///r?<hidden>"),
            ("unix:///r:1?pass=p@q", "unix:///r:<hidden>"),
            ("unix:///r@s?pass=p", "unix:///r@s?pass=<hidden>"),
            ("redis://u:p?q@h", "redis://u:<hidden>"),
            ("redis://u:p/q#r@h", "redis://u:<hidden>@h"),
            ("redis://h,redis://u:p@i", "redis://h,redis:<hidden>@i"),
            ("unix:///r?db=1,unix:///s?pass=p", "unix:///r?db=<hidden>"),
            ("unix:///r?db=1&pass=", "unix:///r?db=1&pass="),
        ] {
            let path = ["pool", "default", "url"];
            assert_eq!(without_password(&path, url), shown, "{url}");
            for secret in secrets_in(&path, &Value::String(url.to_owned())) {
                assert!(!shown.contains(&secret) || secret.len() == 1, "{url}");
            }
        }
        let text = "plain text: no url@all";
        assert_eq!(without_password(&["log", "level"], text), text);
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
