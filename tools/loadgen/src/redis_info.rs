//! Reads INFO from Redis.

use tidegate_local_redis::BlockingClient;

use crate::error::LoadgenError;

/// A blocking connection that reads INFO. A call usually takes less than a millisecond.
#[derive(Debug)]
pub(crate) struct RedisInfo(BlockingClient);

impl RedisInfo {
    /// Connects to `redis://[user][:password@]host:port`.
    pub(crate) fn connect(url: &str) -> Result<Self, LoadgenError> {
        let (account, address) = split_url(url)
            .ok_or_else(|| LoadgenError::Usage(format!("{url}: expected redis://HOST:PORT")))?;
        let (user, password) = account.map_or(("", ""), |account| {
            account.split_once(':').unwrap_or(("", account))
        });
        let login = [user, password].into_iter().filter(|word| !word.is_empty());
        let connected = BlockingClient::connect(address, &login.collect::<Vec<_>>());
        connected.map(Self).map_err(LoadgenError::io(format!(
            "connecting to Redis at {address}"
        )))
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
        let answer = self.0.query(words);
        answer.map_err(LoadgenError::io("reading INFO from Redis"))
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
