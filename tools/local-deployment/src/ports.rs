//! Checks that ports are free and that a given Redis is reachable.

use std::net::{Ipv4Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

const CONNECT_LIMIT: Duration = Duration::from_secs(3);
const REDIS_PORT: u16 = 6379;

/// Checks that two different ports are free. The error names the port and the flag to choose another one.
///
/// # Errors
/// A message for the user.
pub fn check_ports(port: u16, admin_port: u16) -> Result<(), String> {
    check_free(port, "--port")?;
    check_free(admin_port, "--admin-port")?;
    if port == admin_port {
        return Err(format!(
            "--port and --admin-port are both {port}; choose two"
        ));
    }
    Ok(())
}

fn check_free(port: u16, flag: &str) -> Result<(), String> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "cannot listen on port {port} of 127.0.0.1 ({error}); choose another with {flag} PORT"
        )),
    }
}

/// Checks that a Redis with this URL, the value of `--redis`, accepts connections.
///
/// # Errors
/// A message for the user.
pub fn check_redis(url: &str) -> Result<(), String> {
    let address = address(url)
        .ok_or_else(|| format!("--redis {url}: not a URL such as redis://HOST:PORT"))?;
    let unreachable =
        |reason: String| format!("--redis {url}: cannot connect to {address}: {reason}");
    let found = address
        .to_socket_addrs()
        .map_err(|error| unreachable(error.to_string()))?;
    let mut last = "the name has no address".to_owned();
    for one in found {
        match TcpStream::connect_timeout(&one, CONNECT_LIMIT) {
            Ok(_) => return Ok(()),
            Err(error) => last = error.to_string(),
        }
    }
    Err(unreachable(last))
}

/// Returns `host:port` of a URL such as `redis://user:password@host:port/database`.
fn address(url: &str) -> Option<String> {
    let rest = url
        .strip_prefix("redis://")
        .or_else(|| url.strip_prefix("rediss://"))?;
    let authority = rest.split(['/', '?']).next()?;
    let host = authority
        .rsplit('@')
        .next()
        .filter(|host| !host.is_empty())?;
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Some(if has_port {
        host.to_owned()
    } else {
        format!("{host}:{REDIS_PORT}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_taken_from_the_url() {
        assert_eq!(
            address("redis://127.0.0.1:7000").as_deref(),
            Some("127.0.0.1:7000")
        );
        assert_eq!(
            address("redis://me:p@ss@cache/2").as_deref(),
            Some("cache:6379")
        );
        assert_eq!(address("127.0.0.1:7000"), None);
        assert_eq!(address("redis://"), None);
    }

    #[test]
    fn a_taken_port_is_named_with_its_flag() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let message = check_free(port, "--admin-port").unwrap_err();
        assert!(
            message.contains(&format!("port {port} ")) && message.ends_with("--admin-port PORT"),
            "{message}"
        );
    }

    #[test]
    fn an_unreachable_redis_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        assert_eq!(check_redis(&url), Ok(()));
        // A port that was just closed may be taken by another process.
        let message = check_redis("redis://127.0.0.1:1").unwrap_err();
        assert!(
            message.starts_with("--redis redis://127.0.0.1:1: cannot connect"),
            "{message}"
        );
    }
}
