//! The hosts that relays of the API may use, apart from webhooks, whose addresses are checked.

use hyper::Uri;

/// Hosts that the operator of relays allows to those who set relays. Without it, they could reach any server in the
/// network of the relays.
#[derive(Debug, Clone)]
pub(super) struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    pub(super) fn new(hosts: &[&str]) -> Self {
        Self(hosts.iter().map(|host| host.to_lowercase()).collect())
    }

    /// Checks the hosts of a URL, or of several with commas. A part without a scheme is `host:port`.
    ///
    /// # Errors
    /// Names the first host that is not allowed.
    pub(super) fn check(&self, urls: &str) -> Result<(), String> {
        for url in urls.split(',').map(str::trim) {
            let uri: Option<Uri> = url.parse().ok();
            let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
            let host = host.trim_matches(['[', ']']).to_lowercase();
            if host.is_empty() || !self.0.contains(&host) {
                return Err(format!(
                    "the host {host:?} is not allowed: it must be in api.allow_hosts in the settings of tidegate-relayd"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_must_be_allowed() {
        let hosts = AllowedHosts::new(&["nats.example", "A.example", "::1"]);
        for (urls, is_allowed) in [
            ("nats://nats.example:4222", true),
            ("amqp://a.EXAMPLE:5672/shop", true),
            ("http://[::1]:7777", true),
            ("a.example:9092,nats.example:9092", true),
            ("nats://nats.example:4222, nats://other.example", false),
            ("nats://nats.example@other.example:4222", false),
            ("https://other.example/nats.example", false),
            ("nats.example.other:1", false),
            ("", false),
            ("not a url", false),
        ] {
            assert_eq!(hosts.check(urls).is_ok(), is_allowed, "{urls}");
        }
    }
}
