//! Which values are not shown.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use toml::Value;

/// What is shown instead of a secret.
pub(super) const HIDDEN: &str = "<hidden>";

/// Keys whose values are URLs, or should be.
const URLS: [&str; 2] = ["url", "cluster"];

/// The key whose values are hosts.
const HOSTS: &str = "sentinels";

/// Keys that may have several values in one text, with commas between them.
const LISTS: [&str; 2] = ["cluster", "sentinels"];

const NETWORK_SCHEMES: [&str; 4] = ["redis", "rediss", "valkey", "valkeys"];
const SOCKET_SCHEMES: [&str; 3] = ["redis+unix", "valkey+unix", "unix"];

/// Whether the value of this key is a secret as a whole: passwords, and everything about accounts.
pub(super) fn is_secret(path: &[&str]) -> bool {
    path.first() == Some(&"accounts") || path.last().is_some_and(|key| key.contains("password"))
}

/// Whether the value of this key is where to reach a server.
pub(super) fn is_address(path: &[&str]) -> bool {
    let key = path.last().copied().unwrap_or_default();
    key == HOSTS || URLS.contains(&key)
}

/// Whether a text is a URL or is meant as one.
pub(super) fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// A text without its passwords. A URL is shown only where it has one of the documented forms, so that it is clear
/// what in it is a password; else it is hidden as a whole.
pub(super) fn without_password<'a>(path: &[&str], text: &'a str) -> Cow<'a, str> {
    if text.is_empty() || !is_address(path) && !is_url(text) {
        return Cow::Borrowed(text);
    }
    let key = path.last().copied().unwrap_or_default();
    let shown = |text: &str| match key == HOSTS && is_host(text) {
        true => Some(text.to_owned()),
        false => shown_url(text),
    };
    let shown: Option<Vec<String>> = if LISTS.contains(&key) {
        text.split(',').map(|one| shown(one.trim())).collect()
    } else {
        shown(text).map(|one| vec![one])
    };
    shown.map_or(HIDDEN.into(), |shown| shown.join(",").into())
}

/// A URL without its password: `scheme://[user[:password]@]host[:port][/database]`, or `scheme:///path[?db=database]`.
fn shown_url(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let is_one_of = |known: &[&str]| known.iter().any(|one| one.eq_ignore_ascii_case(scheme));
    if is_one_of(&SOCKET_SCHEMES) {
        let (path, database) = rest.split_once("?db=").unwrap_or((rest, "0"));
        let is_path = path.starts_with('/') && is_plain(path, "/._-");
        return (is_path && is_number(database)).then(|| text.to_owned());
    }
    if !is_one_of(&NETWORK_SCHEMES) {
        return None;
    }
    // A password may have an @ in it, though it should not.
    let (login, place) = match rest.rsplit_once('@') {
        Some((login, place)) => (Some(login), place),
        None => (None, rest),
    };
    let (host, database) = place.split_once('/').unwrap_or((place, ""));
    let has_database = !database.is_empty();
    if !is_host(host) || has_database && !is_number(database) {
        return None;
    }
    let login = match login {
        None => String::new(),
        // What is behind the @ may be a part of the password.
        Some(login) if login.contains(['/', '?', '#', '\\', ' ']) => return None,
        Some(login) => match login.split_once(':') {
            Some((user, _)) if is_plain(user, "._-") => format!("{user}:{HIDDEN}@"),
            // A password without its colon is as likely as a user without a password.
            _ => format!("{HIDDEN}@"),
        },
    };
    Some(format!("{scheme}://{login}{place}"))
}

/// Whether a text is a name, an IPv4 address, or an IPv6 address in brackets, with or without a port.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_name = match host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(ip) => ip.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && is_plain(host, "._-"),
    };
    is_name && port.is_none_or(|port| is_number(port) && port.len() <= 5)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_plain(text: &str, others: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || others.contains(letter);
    text.chars().all(is_plain)
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
        Value::String(text) if without_password(path, text) != *text => {
            let login = text
                .split_once("://")
                .and_then(|(_, rest)| rest.rsplit_once('@'));
            let password = login.and_then(|(login, _)| login.split_once(':'));
            let password = password.map(|(_, password)| password.to_owned());
            [text.clone()].into_iter().chain(password).collect()
        }
        other if is_secret(path) => vec![other.to_string()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(key: &str, cases: &[(&str, &str)]) {
        for (text, shown) in cases {
            let path = ["pool", "default", key];
            assert_eq!(without_password(&path, text), *shown, "{key} = {text}");
            for secret in secrets_in(&path, &Value::String((*text).to_owned())) {
                assert!(!shown.contains(&secret) || secret.len() == 1, "{text}");
            }
        }
    }

    #[test]
    fn the_password_of_a_url_is_left_out() {
        expect(
            "url",
            &[
                ("", ""),
                ("redis://h:6379/1", "redis://h:6379/1"),
                ("redis://h/", "redis://h/"),
                ("redis://u:p@h:6379", "redis://u:<hidden>@h:6379"),
                ("redis://:p@h", "redis://:<hidden>@h"),
                ("rediss://u:a@b:c@h", "rediss://u:<hidden>@h"),
                ("REDIS://u:p@[::1]:1", "REDIS://u:<hidden>@[::1]:1"),
                ("redis://u@h", "redis://<hidden>@h"),
                ("redis://p%20q:r@h", "redis://<hidden>@h"),
                ("redis+unix:///run/r-1.s", "redis+unix:///run/r-1.s"),
                ("unix:///r?db=1", "unix:///r?db=1"),
            ],
        );
    }

    #[test]
    fn a_url_of_another_form_is_hidden_as_a_whole() {
        let urls = [
            "redis://:p%40h:6379",
            "redis://u:p%40127.0.0.1:6379/0",
            "redis://:p",
            "redis://:p/0",
            "redis://u:p",
            "redis://h:6379/0&password=p",
            "redis://h:6379/0;password=p",
            "redis://h:6379/0#p",
            "redis://h:6379/p",
            "redis://h:6379?pass=p",
            "redis://h:6379/0?pass=p@q",
            "redis://u:p?q@h",
            "redis://u:p/q@h",
            "redis://u:p@h?db=1",
            "redis://u:p\u{ff20}h:6379",
            "redis://[p]x",
            "redis:// :p@h",
            "redis:/:p@h",
            "redis//:p@h",
            "redis:u:p@h",
            "u:p@h:6379",
            "h:6379",
            "http://u:p@h",
            "redis://h,redis://u:p@i",
            "redis+unix:///s;pass=p",
            "redis+unix:///s?pass=p",
            "redis+unix:///s?db=1&pass=p",
            "redis+unix:///s?db=p",
            "redis+unix://p/s",
            "unix:/run/r?pass=p",
        ];
        expect("url", &urls.map(|url| (url, HIDDEN)));
        // A key that is for something else.
        for url in urls.into_iter().filter(|url| is_url(url)) {
            assert_eq!(without_password(&["log", "level"], url), HIDDEN, "{url}");
        }
        let text = "plain text: no url@all";
        assert_eq!(without_password(&["log", "level"], text), text);
    }

    #[test]
    fn a_list_in_one_text_is_shown_if_each_of_it_can_be() {
        expect(
            "cluster",
            &[
                ("redis://h,redis://u:p@i", "redis://h,redis://u:<hidden>@i"),
                ("redis://h:1, redis://i:2", "redis://h:1,redis://i:2"),
                ("redis://u:p,q@h", HIDDEN),
                ("redis://u:1,2@h", HIDDEN),
                ("redis://h,i", HIDDEN),
            ],
        );
        expect(
            "sentinels",
            &[
                ("h:26379,i", "h:26379,i"),
                ("u:p@h:26379", HIDDEN),
                ("h,redis://:p@i", "h,redis://:<hidden>@i"),
            ],
        );
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
