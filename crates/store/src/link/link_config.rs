//! Converts settings to the way Redis is reached. An error names the key and the remedy.

mod cluster;

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisResult,
};

use super::host_port::HostPort;
use super::sentinel::{Sentinel, Sentinels};
use super::server::ServerEndpoint;
use super::tls::Tls;
use super::waits::Timeouts;
use crate::config::{DEFAULT_URL, StoreConfig};

const URL_FORMS: &str = "write redis://host:port, rediss://host:port for TLS, or redis+unix:///path; \
    name user, password and database with the keys username, password and database";

/// How Redis is reached.
pub(crate) enum LinkConfig {
    /// A server at a fixed address.
    Direct(ServerEndpoint),
    /// Sentinels, which report the address of the master.
    Sentinel(Sentinels, ServerAccess),
    /// Nodes of a cluster, which report the addresses of all nodes.
    Cluster(Vec<HostPort>, ServerAccess),
}

/// Login, TLS and time limits, which the servers of a group have in common.
pub(crate) struct ServerAccess {
    login: RedisConnectionInfo,
    tls: Option<Tls>,
    waits: Timeouts,
}

impl LinkConfig {
    /// # Errors
    /// The settings are invalid. The text names the key and the remedy.
    pub(crate) fn new(config: &StoreConfig) -> Result<Self, String> {
        let has_url = !matches!(config.url.as_str(), "" | DEFAULT_URL);
        let both = |one: &str, other: &str| {
            Err(format!(
                "{one} and {other} are both set: keep only one of them"
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

/// Rejects keys that are valid only with sentinels.
fn refuse_keys_of_sentinels(config: &StoreConfig) -> Result<(), String> {
    let keys = [
        ("master_name", config.master_name.is_some()),
        ("sentinel_username", config.sentinel_username.is_some()),
        ("sentinel_password", config.sentinel_password.is_some()),
        ("tls_sentinels", config.tls_sentinels),
    ];
    match keys.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => Err(format!(
            "{key} is set, but not sentinels: set sentinels, or remove {key}"
        )),
        None => Ok(()),
    }
}

fn direct(config: &StoreConfig) -> Result<LinkConfig, String> {
    refuse_keys_of_sentinels(config)?;
    let info = url("url", &config.url)?;
    let is_tls = has_tls(&info);
    if config.tls && !is_tls {
        return Err("tls is set, but url is not a TLS url: write rediss://host:port".to_owned());
    }
    let access = ServerAccess {
        tls: Tls::new(config, is_tls, "rediss://")?,
        login: login(config, info.redis_settings().clone())?,
        waits: Timeouts::of(config),
    };
    let endpoint = access.endpoint(info);
    let unusable = |error| format!("url cannot be used ({error}): {URL_FORMS}");
    Ok(LinkConfig::Direct(endpoint.map_err(unusable)?))
}

fn has_tls(info: &ConnectionInfo) -> bool {
    matches!(info.addr(), ConnectionAddr::TcpTls { .. })
}

/// Parses a url. The error does not contain the url, which may contain a password.
fn url(key: &str, text: &str) -> Result<ConnectionInfo, String> {
    if text.contains('#') {
        return Err(format!(
            "{key} must not have a fragment (#…): certificates are always checked, set tls_ca_file for a private \
             authority; write a # in a password as %23"
        ));
    }
    let parsed = text.into_connection_info();
    parsed.map_err(|error| format!("{key} cannot be used ({error}): {URL_FORMS}"))
}

fn through_sentinels(config: &StoreConfig) -> Result<LinkConfig, String> {
    let Some(name) = config.master_name.clone() else {
        return Err(
            "sentinels are set, but not master_name: set it to the name in `sentinel monitor NAME …`"
                .to_owned(),
        );
    };
    let addresses: Result<Vec<HostPort>, String> =
        config.sentinels.iter().map(|text| text.parse()).collect();
    let any_tls = config.tls || config.tls_sentinels;
    let tls = Tls::new(config, any_tls, "tls = true or tls_sentinels = true")?;
    let waits = Timeouts::of(config);
    let to_sentinels = ServerAccess {
        login: credentials(
            RedisConnectionInfo::default(),
            "sentinel_username",
            (&config.sentinel_username, &config.sentinel_password),
        )?,
        tls: tls.clone().filter(|_| config.tls_sentinels),
        waits,
    };
    let sentinels = addresses?.into_iter().map(|host_port| {
        let endpoint = to_sentinels.at(&host_port)?;
        Ok(Sentinel::new(host_port, endpoint))
    });
    let all: Result<Vec<Sentinel>, String> = sentinels.collect();
    let masters = ServerAccess {
        login: login(config, RedisConnectionInfo::default())?,
        tls: tls.filter(|_| config.tls),
        waits,
    };
    Ok(LinkConfig::Sentinel(Sentinels { all: all?, name }, masters))
}

/// User and database of a url, overridden by the keys.
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
            "{username_key} is set without a password: set {password_key} too, or remove {username_key}"
        ));
    }
    Ok(login)
}

impl ServerAccess {
    /// The server at this address.
    ///
    /// # Errors
    /// The address is invalid.
    pub(crate) fn at(&self, host_port: &HostPort) -> Result<ServerEndpoint, String> {
        let HostPort { host, port } = host_port.clone();
        let address = match self.tls {
            Some(_) => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
            None => ConnectionAddr::Tcp(host, port),
        };
        let unusable = |error: redis::RedisError| format!("{host_port} cannot be used: {error}");
        let info = address.into_connection_info().map_err(unusable)?;
        self.endpoint(info).map_err(unusable)
    }

    fn endpoint(&self, info: ConnectionInfo) -> RedisResult<ServerEndpoint> {
        let waits = self.waits;
        let info = info
            .set_redis_settings(self.login.clone())
            .set_tcp_settings(waits.tcp_settings());
        let client = match &self.tls {
            Some(tls) => tls.client(info)?,
            None => Client::open(info)?,
        };
        Ok(ServerEndpoint { client, waits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut StoreConfig)) -> String {
        let mut config = StoreConfig::new(DEFAULT_URL);
        change(&mut config);
        match LinkConfig::new(&config) {
            Ok(_) => panic!("accepted: {config:?}"),
            Err(said) => said,
        }
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn sentinels_replace_only_the_default_url() {
        let mut config = StoreConfig::new(DEFAULT_URL);
        config.sentinels = vec!["a".to_owned()];
        config.master_name = some("tide");
        assert!(matches!(
            LinkConfig::new(&config),
            Ok(LinkConfig::Sentinel(..))
        ));
        config.url = String::new();
        assert!(matches!(
            LinkConfig::new(&config),
            Ok(LinkConfig::Sentinel(..))
        ));
        config.url = "redis://other".to_owned();
        let said = LinkConfig::new(&config).err().unwrap();
        assert!(said.contains("url and sentinels are both set"), "{said}");
        config.sentinels.clear();
        let said = LinkConfig::new(&config).err().unwrap();
        assert!(said.starts_with("master_name is set"), "{said}");
    }

    #[test]
    fn errors_name_the_key_and_the_remedy() {
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
    fn errors_do_not_contain_an_invalid_url() {
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
    fn keys_override_the_url() {
        let mut config = StoreConfig::new("redis://bob:old@host:1/3");
        config.username = some("alice");
        config.password = some("new");
        config.database = Some(5);
        let Ok(LinkConfig::Direct(endpoint)) = LinkConfig::new(&config) else {
            panic!("not accepted");
        };
        let redis = endpoint.client.get_connection_info().redis_settings();
        assert_eq!(
            (redis.username(), redis.password()),
            (Some("alice"), Some("new"))
        );
        assert_eq!(redis.db(), 5);
    }
}
