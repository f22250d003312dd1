//! Reads INFO from Redis. This needs only a few lines of its protocol, so the load generator needs no Redis
//! client; only the store may depend on one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::error::LoadgenError;

const LIMIT: Duration = Duration::from_secs(10);

/// A blocking connection that reads INFO. A call usually takes less than a millisecond, and at most 10 s
/// per read.
#[derive(Debug)]
pub(crate) struct RedisInfo {
    stream: BufReader<TcpStream>,
}

impl RedisInfo {
    /// Connects to `redis://[user][:password@]host:port`.
    pub(crate) fn connect(url: &str) -> Result<Self, LoadgenError> {
        let (account, address) = split_url(url)
            .ok_or_else(|| LoadgenError::Usage(format!("{url}: expected redis://HOST:PORT")))?;
        let doing = || format!("connecting to Redis at {address}");
        let stream = TcpStream::connect(address).map_err(LoadgenError::io(doing()))?;
        stream
            .set_read_timeout(Some(LIMIT))
            .map_err(LoadgenError::io(doing()))?;
        let mut info = Self {
            stream: BufReader::new(stream),
        };
        if let Some(account) = account {
            let (user, password) = account.split_once(':').unwrap_or(("", account));
            let words = ["AUTH", user, password];
            let words = words.iter().filter(|word| !word.is_empty());
            info.query(&words.copied().collect::<Vec<_>>())?;
        }
        Ok(info)
    }

    /// Returns a number of an INFO section, such as `used_memory` of `memory`.
    pub(crate) fn number(&mut self, section: &str, field: &str) -> Result<f64, LoadgenError> {
        let text = self.query(&["INFO", section])?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok())
            .ok_or_else(|| {
                LoadgenError::Store(format!("INFO {section} of Redis has no number {field}"))
            })
    }

    /// Returns the number of commands executed since the start of Redis, including commands inside scripts.
    pub(crate) fn commands(&mut self) -> Result<f64, LoadgenError> {
        let text = self.query(&["INFO", "commandstats"])?;
        let calls = text.split("calls=").skip(1);
        Ok(calls
            .filter_map(|rest| rest.split(',').next()?.parse::<f64>().ok())
            .sum())
    }

    fn query(&mut self, words: &[&str]) -> Result<String, LoadgenError> {
        self.exchange(words)
            .map_err(LoadgenError::io("reading INFO from Redis"))
    }

    fn exchange(&mut self, words: &[&str]) -> std::io::Result<String> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let line = line.trim_end();
        match line.split_at_checked(1) {
            Some(("$", length)) => {
                let length: usize = length.parse().map_err(std::io::Error::other)?;
                let mut text = vec![0; length + 2];
                self.stream.read_exact(&mut text)?;
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            Some(("+", text)) => Ok(text.to_owned()),
            _ => Err(std::io::Error::other(format!("unexpected answer {line:?}"))),
        }
    }
}

/// Splits a URL into `user:password`, if there is one, and `host:port`.
fn split_url(url: &str) -> Option<(Option<&str>, &str)> {
    let authority = url.strip_prefix("redis://")?.split('/').next()?;
    let (account, address) = match authority.rsplit_once('@') {
        Some((account, address)) => (Some(account), address),
        None => (None, authority),
    };
    address.contains(':').then_some((account, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_an_address_and_may_have_an_account() {
        assert_eq!(split_url("redis://h:1/2"), Some((None, "h:1")));
        assert_eq!(split_url("redis://:p@h:1"), Some((Some(":p"), "h:1")));
        assert_eq!(split_url("redis://h"), None);
        assert_eq!(split_url("h:1"), None);
    }
}
