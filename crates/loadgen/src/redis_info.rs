//! What Redis tells of itself. INFO is all that is asked, so a dozen lines of its protocol do, and the load
//! generator keeps out of the rule that only the store speaks to Redis with a client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::Error;

const LIMIT: Duration = Duration::from_secs(10);

/// A connection that asks for INFO. It blocks, for less than a millisecond.
#[derive(Debug)]
pub(crate) struct RedisInfo {
    stream: BufReader<TcpStream>,
}

impl RedisInfo {
    /// Connects to `redis://[user][:password@]host:port`.
    pub(crate) fn of(url: &str) -> Result<Self, Error> {
        let (account, address) =
            parts(url).ok_or_else(|| Error::Usage(format!("{url}: expected redis://HOST:PORT")))?;
        let doing = || format!("asking Redis at {address}");
        let stream = TcpStream::connect(address).map_err(Error::io(doing()))?;
        stream
            .set_read_timeout(Some(LIMIT))
            .map_err(Error::io(doing()))?;
        let mut info = Self {
            stream: BufReader::new(stream),
        };
        if let Some(account) = account {
            let (user, password) = account.split_once(':').unwrap_or(("", account));
            let words = ["AUTH", user, password];
            let words = words.iter().filter(|word| !word.is_empty());
            info.ask(&words.copied().collect::<Vec<_>>())?;
        }
        Ok(info)
    }

    /// A number of a section, such as `used_memory` of `memory`.
    pub(crate) fn number(&mut self, section: &str, field: &str) -> Result<f64, Error> {
        let text = self.ask(&["INFO", section])?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok())
            .ok_or_else(|| Error::Store(format!("Redis tells no {field}")))
    }

    /// Commands carried out since its start, those inside scripts included.
    pub(crate) fn commands(&mut self) -> Result<f64, Error> {
        let text = self.ask(&["INFO", "commandstats"])?;
        let calls = text.split("calls=").skip(1);
        Ok(calls
            .filter_map(|rest| rest.split(',').next()?.parse::<f64>().ok())
            .sum())
    }

    fn ask(&mut self, words: &[&str]) -> Result<String, Error> {
        self.exchange(words).map_err(Error::io("asking Redis"))
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
            _ => Err(std::io::Error::other(format!("it says {line:?}"))),
        }
    }
}

/// User and password as they are in a URL, and `host:port`.
fn parts(url: &str) -> Option<(Option<&str>, &str)> {
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
        assert_eq!(parts("redis://h:1/2"), Some((None, "h:1")));
        assert_eq!(parts("redis://:p@h:1"), Some((Some(":p"), "h:1")));
        assert_eq!(parts("redis://h"), None);
        assert_eq!(parts("h:1"), None);
    }
}
