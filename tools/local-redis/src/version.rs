//! Parses the version of a server program.

use std::fmt;

/// One of the two supported servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// `redis-server`.
    Redis,
    /// `valkey-server`.
    Valkey,
}

impl fmt::Display for ServerKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Redis => "Redis",
            Self::Valkey => "Valkey",
        })
    }
}

/// A version of three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Parses a line such as `Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64
/// build=…`.
pub(crate) fn parse(line: &str) -> Option<(ServerKind, Version)> {
    let mut words = line.split_whitespace();
    let flavour = match words.next()? {
        "Redis" => ServerKind::Redis,
        "Valkey" | "Server" => ServerKind::Valkey,
        _ => return None,
    };
    let text = words.find_map(|word| word.strip_prefix("v="))?;
    let mut numbers = text.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    let major = numbers.next()??;
    let minor = numbers.next().flatten().unwrap_or(0);
    let patch = numbers.next().flatten().unwrap_or(0);
    Some((
        flavour,
        Version {
            major,
            minor,
            patch,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(major: u32, minor: u32, patch: u32) -> Version {
        Version {
            major,
            minor,
            patch,
        }
    }

    #[test]
    fn parses_the_output_of_servers() {
        let cases = [
            (
                "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64",
                ServerKind::Redis,
                version(7, 0, 15),
            ),
            (
                "Redis server v=6.2.14 sha=00000000:0 malloc=libc bits=64",
                ServerKind::Redis,
                version(6, 2, 14),
            ),
            (
                "Valkey server v=8.1.8 sha=00000000:1 malloc=libc bits=64",
                ServerKind::Valkey,
                version(8, 1, 8),
            ),
            (
                "Redis server v=8.0-rc1 sha=0",
                ServerKind::Redis,
                version(8, 0, 0),
            ),
        ];
        for (line, flavour, version) in cases {
            assert_eq!(parse(line), Some((flavour, version)), "{line}");
        }
    }

    #[test]
    fn rejects_everything_else() {
        for line in [
            "",
            "Redis",
            "Redis server",
            "Redis server v=x",
            "nginx version: nginx/1.22.1",
            "redis-cli 7.0.15",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn versions_are_ordered() {
        assert!(version(6, 2, 14) < version(7, 0, 0));
        assert!(version(7, 0, 9) < version(7, 0, 15));
        assert_eq!(version(7, 0, 15).to_string(), "7.0.15");
    }
}
