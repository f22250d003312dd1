//! From settings to a way to Redis. Mistakes end here, each with the key and what to do about it.

mod cluster;

use std::str::FromStr;

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use super::sentinel::Sentinels;
use super::server::{Endpoint, Waits};
use super::tls::Tls;
use crate::StoreConfig;
use crate::config::DEFAULT_URL;

const SENTINEL_PORT: u16 = 26379;
const URL_FORMS: &str = "write redis://host:port, rediss://host:port for TLS, or redis+unix:///path; \
    name user, password and database with the keys username, password and database";

/// Which way leads to Redis.
pub(crate) enum Route {
    /// A server whose place is known.
    Direct(Endpoint),
    /// Sentinels know the place of the master.
    Sentinel(Sentinels, Access),
    /// Nodes of a cluster know the places of all others.
    Cluster(Vec<Place>, Access),
}

/// What the servers of a group have in common: all but the place.
pub(crate) struct Access {
    login: RedisConnectionInfo,
    tls: Option<Tls>,
    waits: Waits,
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Route {
    /// # Errors
    /// One sentence: which key cannot be so, and what to do.
    pub(crate) fn new(config: &StoreConfig) -> Result<Self, String> {
        let has_url = !matches!(config.url.as_str(), "" | DEFAULT_URL);
        let both = |one: &str, other: &str| {
            Err(format!(
                "{one} and {other} are both set: keep the one that says how Redis is reached"
            ))
        };
        match (config.sentinels.is_empty(), config.cluster.is_empty()) {
            (false, false) => both("sentinels", "cluster"),
            (false, true) if has_url => both("url", "sentinels"),
            (true, false) if has_url => both("url", "cluster"),
            (false, true) => through_sentinels(config),
            (true, false) => cluster::route(config),
            (true, true) if config.url.is_empty() => Err(format!(
                "none of url, sentinels and cluster is set: {URL_FORMS}"
            )),
            (true, true) => direct(config),
        }
    }
}

/// Refuses what only has a meaning with sentinels.
fn refuse_keys_of_sentinels(config: &StoreConfig) -> Result<(), String> {
    let keys = [
        ("master_name", config.master_name.is_some()),
        ("sentinel_username", config.sentinel_username.is_some()),
        ("sentinel_password", config.sentinel_password.is_some()),
        ("tls_sentinels", config.tls_sentinels),
    ];
    match keys.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => Err(format!(
            "{key} is set, but not sentinels: name the sentinels, or leave it out"
        )),
        None => Ok(()),
    }
}

fn direct(config: &StoreConfig) -> Result<Route, String> {
    refuse_keys_of_sentinels(config)?;
    let info = url("url", &config.url)?;
    let is_tls = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
    if config.tls && !is_tls {
        return Err("tls is set, but url is not one for TLS: write rediss://host:port".to_owned());
    }
    let tls = Tls::new(config, is_tls, "rediss://")?;
    let waits = Waits::of(config);
    let login = login(config, info.redis_settings().clone())?;
    let info = info
        .set_redis_settings(login)
        .set_tcp_settings(waits.tcp_settings());
    let client = match tls {
        Some(tls) => tls.client(info),
        None => Client::open(info),
    };
    let client = client.map_err(|error| format!("url cannot be used ({error}): {URL_FORMS}"))?;
    Ok(Route::Direct(Endpoint::new(client, waits)))
}

/// What cannot be read is not repeated: it may hold a password.
fn url(key: &str, text: &str) -> Result<ConnectionInfo, String> {
    if text.contains('#') {
        return Err(format!(
            "{key} must not have a part after #, and a # in a password is written %23: certificates are \
             always checked; name your own authority with tls_ca_file"
        ));
    }
    let parsed = text.into_connection_info();
    parsed.map_err(|error| format!("{key} cannot be used ({error}): {URL_FORMS}"))
}

fn through_sentinels(config: &StoreConfig) -> Result<Route, String> {
    let Some(name) = config.master_name.clone() else {
        return Err(
            "sentinels are set, but not master_name: write what they call the master, as in \
             `sentinel monitor NAME …`"
                .to_owned(),
        );
    };
    let places: Result<Vec<Place>, String> =
        config.sentinels.iter().map(|text| text.parse()).collect();
    let any_tls = config.tls || config.tls_sentinels;
    let tls = Tls::new(config, any_tls, "tls = true or tls_sentinels = true")?;
    let waits = Waits::of(config);
    let to_sentinels = Access {
        login: credentials(
            RedisConnectionInfo::default(),
            "sentinel_username",
            (&config.sentinel_username, &config.sentinel_password),
        )?,
        tls: tls.clone().filter(|_| config.tls_sentinels),
        waits,
    };
    let endpoints: Result<Vec<(Place, Endpoint)>, String> = places?
        .into_iter()
        .map(|place| {
            let endpoint = to_sentinels.at(&place)?;
            Ok((place, endpoint))
        })
        .collect();
    let masters = Access {
        login: login(config, RedisConnectionInfo::default())?,
        tls: tls.filter(|_| config.tls),
        waits,
    };
    Ok(Route::Sentinel(
        Sentinels::new(endpoints?, name, waits.connect),
        masters,
    ))
}

/// What a url says about user and database, with what the keys say instead.
fn login(config: &StoreConfig, of_url: RedisConnectionInfo) -> Result<RedisConnectionInfo, String> {
    let login = match config.database {
        Some(number) => of_url.set_db(number.into()),
        None => of_url,
    };
    credentials(login, "username", (&config.username, &config.password))
}

fn credentials(
    login: RedisConnectionInfo,
    username_key: &str,
    (username, password): (&Option<String>, &Option<String>),
) -> Result<RedisConnectionInfo, String> {
    let login = match username {
        Some(username) => login.set_username(username),
        None => login,
    };
    let login = match password {
        Some(password) => login.set_password(password),
        None => login,
    };
    if login.username().is_some() && login.password().is_none() {
        let password_key = username_key.replace("username", "password");
        return Err(format!(
            "a user without a password: set {password_key} too, or leave {username_key} out"
        ));
    }
    Ok(login)
}

impl Access {
    /// The server at this place.
    ///
    /// # Errors
    /// The place makes no sense.
    pub(crate) fn at(&self, place: &Place) -> Result<Endpoint, String> {
        let Place { host, port } = place.clone();
        let address = match self.tls {
            Some(_) => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
            None => ConnectionAddr::Tcp(host, port),
        };
        let unusable = |error: redis::RedisError| format!("{place} cannot be used: {error}");
        let info = address.into_connection_info().map_err(unusable)?;
        let info = info
            .set_redis_settings(self.login.clone())
            .set_tcp_settings(self.waits.tcp_settings());
        let client = match &self.tls {
            Some(tls) => tls.client(info),
            None => Client::open(info),
        };
        Ok(Endpoint::new(client.map_err(unusable)?, self.waits))
    }
}

impl Place {
    /// The place of a node as another one names it, `host:port`; without a host it is that of `asked`.
    pub(crate) fn of_node(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = match host {
            "" | "?" => &asked.host,
            host => host.trim_start_matches('[').trim_end_matches(']'),
        };
        Some(Self {
            host: host.to_owned(),
            port: port.parse().ok()?,
        })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Place {
    type Err = String;

    /// `host`, `host:port`, `[v6]` or `[v6]:port`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = port.map_or(Ok(SENTINEL_PORT), str::parse);
        let is_host = !host.is_empty() && !host.contains(['/', '@', ' ']);
        match port {
            Ok(port) if is_host && port > 0 => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            // What looks like a url may hold a password.
            _ if text.contains('@') => Err(
                "sentinels must be host:port each; name user and password with sentinel_username and \
                 sentinel_password"
                    .to_owned(),
            ),
            _ => Err(format!("sentinels must be host:port each, not {text:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut StoreConfig)) -> String {
        let mut config = StoreConfig::new(DEFAULT_URL);
        change(&mut config);
        match Route::new(&config) {
            Ok(_) => panic!("accepted: {config:?}"),
            Err(said) => said,
        }
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn sentinels_count_in_the_place_of_the_default_url_only() {
        let mut config = StoreConfig::new(DEFAULT_URL);
        config.sentinels = vec!["a".to_owned()];
        config.master_name = some("tide");
        assert!(matches!(Route::new(&config), Ok(Route::Sentinel(..))));
        config.url = String::new();
        assert!(matches!(Route::new(&config), Ok(Route::Sentinel(..))));
        config.url = "redis://other".to_owned();
        let said = Route::new(&config).err().unwrap();
        assert!(said.contains("url and sentinels are both set"), "{said}");
        config.sentinels.clear();
        let said = Route::new(&config).err().unwrap();
        assert!(said.starts_with("master_name is set"), "{said}");
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_is_named_with_the_remedy() {
        let said = refused(|config| config.url = String::new());
        assert!(
            said.contains("none of url, sentinels and cluster"),
            "{said}"
        );
        let said = refused(|config| config.sentinels = vec!["a".to_owned()]);
        assert!(said.contains("not master_name"), "{said}");
        let said = refused(|config| {
            config.master_name = some("tide");
            config.sentinels = vec!["a:b".to_owned()];
        });
        assert!(said.contains("host:port each, not \"a:b\""), "{said}");
        let said = refused(|config| config.username = some("alice"));
        assert!(said.contains("set password too"), "{said}");
        let said = refused(|config| config.tls = true);
        assert!(said.contains("rediss://"), "{said}");
    }

    #[test]
    fn a_url_that_cannot_be_read_is_not_repeated() {
        for url in [
            "http://:sesame@host",
            "sesame",
            "redis://:sesame@host:port",
            "redis://:sesame@host/one",
            "rediss://:sesame@host#insecure",
            "redis://:#sesame@host",
        ] {
            let said = refused(|config| config.url = url.to_owned());
            assert!(
                said.starts_with("url ") && !said.contains("sesame"),
                "{said}"
            );
        }
        let said = refused(|config| {
            config.master_name = some("tide");
            config.sentinels = vec!["redis://:sesame@host:1".to_owned()];
        });
        assert!(!said.contains("sesame"), "{said}");
    }

    #[test]
    fn the_keys_win_over_the_url() {
        let mut config = StoreConfig::new("redis://bob:old@host:1/3");
        config.username = some("alice");
        config.password = some("new");
        config.database = Some(5);
        let Ok(Route::Direct(endpoint)) = Route::new(&config) else {
            panic!("not accepted");
        };
        let redis = endpoint.client.get_connection_info().redis_settings();
        assert_eq!(
            (redis.username(), redis.password()),
            (Some("alice"), Some("new"))
        );
        assert_eq!(redis.db(), 5);
    }

    #[test]
    fn places_have_a_port_of_their_own_or_that_of_sentinels() {
        for (text, host, port) in [
            ("a", "a", 26379),
            ("10.0.0.1:5", "10.0.0.1", 5),
            ("[::1]", "::1", 26379),
            ("[::1]:5", "::1", 5),
        ] {
            let place: Place = text.parse().unwrap();
            assert_eq!((place.host.as_str(), place.port), (host, port));
        }
        for text in ["", ":5", "a:", "a:0", "a:70000", "a/b", "::1"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
