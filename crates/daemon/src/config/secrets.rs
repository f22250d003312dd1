//! Values that are secrets and must not be shown.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use toml::Value;

/// Shown in place of a secret.
pub(super) const HIDDEN: &str = "<hidden>";

/// Keys whose values must be URLs.
const URLS: [&str; 4] = ["url", "cluster", "endpoint", "cold_url"];

/// The key whose values are host names.
const HOSTS: &str = "sentinels";

/// Keys that accept several values in one text, separated by commas.
const LISTS: [&str; 2] = ["cluster", "sentinels"];

/// The path of a web address may be a secret, so an address with a path is hidden.
const NETWORK_SCHEMES: [&str; 9] = [
    "redis", "rediss", "valkey", "valkeys", "http", "https", "nats", "amqp", "amqps",
];
const SOCKET_SCHEMES: [&str; 3] = ["redis+unix", "valkey+unix", "unix"];

/// Keys of relays whose values are secrets.
const SECRETS: [&str; 3] = ["api_key", "secret", "token"];

/// Whether the whole value of this key is a secret: passwords, keys and tokens, and everything below `accounts`.
pub(super) fn is_secret(path: &[String]) -> bool {
    let key = last(path);
    path.first().is_some_and(|table| table == "accounts")
        || key.contains("password")
        || SECRETS.contains(&key)
}

/// Whether the value of this key is the address of a server.
pub(super) fn is_address(path: &[String]) -> bool {
    let key = last(path);
    key == HOSTS || URLS.contains(&key)
}

fn last(path: &[String]) -> &str {
    path.last().map_or("", String::as_str)
}

/// Whether a text is, or contains, a URL.
pub(super) fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// Returns a text without its passwords. A URL is shown only if it has one of the documented forms, because only then
/// it is certain which part is the password. Any other URL is hidden entirely.
pub(super) fn without_password<'a>(path: &[String], text: &'a str) -> Cow<'a, str> {
    if text.is_empty() || !is_address(path) && !is_url(text) {
        return Cow::Borrowed(text);
    }
    let key = last(path);
    let shown = |text: &str| match key == HOSTS && is_host(text) {
        true => Some(text.to_owned()),
        false => url_without_password(text),
    };
    let shown: Option<Vec<String>> = if LISTS.contains(&key) {
        text.split(',').map(|one| shown(one.trim())).collect()
    } else {
        shown(text).map(|one| vec![one])
    };
    shown.map_or(HIDDEN.into(), |shown| shown.join(",").into())
}

/// Returns a URL without its password, or `None` if it has none of these forms:
/// `scheme://[user[:password]@]host[:port][/database]`, or `scheme:///path[?db=database]`.
fn url_without_password(text: &str) -> Option<String> {
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
    // An unescaped password may contain an @.
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
        // Then the part behind the @ may belong to the password.
        Some(login) if login.contains(['/', '?', '#', '\\', ' ']) => return None,
        Some(login) => match login.split_once(':') {
            Some((user, _)) if is_plain(user, "._-") => format!("{user}:{HIDDEN}@"),
            // Without a colon the login may be a user, or a password.
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

/// Returns every text in this value that must not be shown.
pub(super) fn secrets_in(path: &[String], value: &Value) -> Vec<String> {
    match value {
        Value::Table(table) => {
            let inner = table.iter().flat_map(|(key, value)| {
                let path = [path, std::slice::from_ref(key)].concat();
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
    use super::super::tables::parts;
    use super::*;

    #[track_caller]
    fn expect(key: &str, cases: &[(&str, &str)]) {
        for (text, shown) in cases {
            let path = parts(&format!("pool.default.{key}"));
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
            "ftp://u:p@h",
            "https://h/p",
            "https://h?p",
            "redis://h,redis://u:p@i",
            "redis+unix:///s;pass=p",
            "redis+unix:///s?pass=p",
            "redis+unix:///s?db=1&pass=p",
            "redis+unix:///s?db=p",
            "redis+unix://p/s",
            "unix:/run/r?pass=p",
        ];
        expect("url", &urls.map(|url| (url, HIDDEN)));
        // The same at a key that takes no address.
        for url in urls.into_iter().filter(|url| is_url(url)) {
            assert_eq!(without_password(&parts("log.level"), url), HIDDEN, "{url}");
        }
        let text = "plain text: no url@all";
        assert_eq!(without_password(&parts("log.level"), text), text);
    }

    #[test]
    fn a_list_in_one_text_is_shown_if_each_item_can_be() {
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
        assert!(is_secret(&parts("accounts.ops")));
        assert!(is_secret(&parts("accounts")));
        assert!(is_secret(&parts("pool.default.password")));
        assert!(is_secret(&parts("pool.default.sentinel_password")));
        assert!(is_secret(&parts("youzan.token")) && !is_secret(&parts("hash_tokens")));
        assert!(!is_secret(&parts("pool.default.username")));
        assert!(is_secret(&parts("relay.orders.sink.secret")));
        assert!(is_secret(&parts("relay.orders.source.token")));
    }
}
