//! Converts settings to the nodes of a cluster.

use redis::{ConnectionInfo, RedisConnectionInfo};

use super::{LinkConfig, ServerAccess, has_tls, login, refuse_keys_of_sentinels, url};
use crate::config::StoreConfig;
use crate::link::host_port::HostPort;
use crate::link::tls::Tls;
use crate::link::waits::Timeouts;

/// The configured nodes. Login and TLS apply to all nodes of the cluster, so the urls must agree in them.
pub(super) fn route(config: &StoreConfig) -> Result<LinkConfig, String> {
    refuse_keys_of_sentinels(config)?;
    let urls = config.cluster.iter();
    let infos: Result<Vec<_>, _> = urls.map(|text| url("cluster", text)).collect();
    let infos = infos?;
    let seeds: Result<Vec<HostPort>, String> = infos.iter().map(host_port).collect();
    let seeds = seeds?;
    let is_tls = infos.iter().any(has_tls);
    if (is_tls || config.tls) && !infos.iter().all(has_tls) {
        return Err(
            "cluster: TLS is for all nodes or for none: write rediss://host:port for each node"
                .to_owned(),
        );
    }
    let of_urls = common_login(&infos)?;
    let login = login(config, of_urls)?;
    if login.db() != 0 {
        return Err(format!(
            "a cluster has database 0 only: remove database {}",
            login.db()
        ));
    }
    let access = ServerAccess {
        login,
        tls: Tls::new(config, is_tls, "rediss://")?,
        waits: Timeouts::of(config),
    };
    Ok(LinkConfig::Cluster(seeds, access))
}

/// The address in a url.
fn host_port(info: &ConnectionInfo) -> Result<HostPort, String> {
    HostPort::of_address(info.addr()).ok_or_else(|| {
        "cluster: nodes are reached by host and port, not over a Unix socket: write redis://host:port"
            .to_owned()
    })
}

fn common_login(infos: &[ConnectionInfo]) -> Result<RedisConnectionInfo, String> {
    let of = |info: &ConnectionInfo| info.redis_settings().clone();
    let key = |login: &RedisConnectionInfo| {
        let text = |part: Option<&str>| part.map(str::to_owned);
        (text(login.username()), text(login.password()), login.db())
    };
    let first = infos.first().map(of).unwrap_or_default();
    let is_common = infos.iter().all(|info| key(&of(info)) == key(&first));
    match is_common {
        true => Ok(first),
        false => Err(
            "cluster: all nodes must have the same user and password: set them once, with the keys username \
             and password"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(change: impl FnOnce(&mut StoreConfig)) -> Result<LinkConfig, String> {
        let mut config = StoreConfig::new("");
        config.cluster = vec!["redis://a:1".to_owned(), "redis://b".to_owned()];
        change(&mut config);
        LinkConfig::new(&config)
    }

    fn refused(change: impl FnOnce(&mut StoreConfig)) -> String {
        made(change).err().unwrap()
    }

    fn urls(urls: &[&str]) -> Vec<String> {
        urls.iter().map(|url| (*url).to_owned()).collect()
    }

    #[test]
    fn nodes_have_addresses_and_one_login() {
        let Ok(LinkConfig::Cluster(seeds, access)) = made(|config| {
            config.cluster = urls(&["redis://:sesame@a:1", "redis://:sesame@b"]);
        }) else {
            panic!("not accepted");
        };
        let seeds: Vec<String> = seeds.iter().map(HostPort::to_string).collect();
        assert_eq!(seeds, ["a:1", "b:6379"]);
        assert_eq!(access.login.password(), Some("sesame"));
    }

    #[test]
    fn errors_name_the_key_and_the_remedy() {
        let said = refused(|config| config.url = "redis://other".to_owned());
        assert!(said.contains("url and cluster are both set"), "{said}");
        let said = refused(|config| config.sentinels = urls(&["a"]));
        assert!(
            said.contains("sentinels and cluster are both set"),
            "{said}"
        );
        let said = refused(|config| config.master_name = Some("tide".to_owned()));
        assert!(said.contains("master_name is set"), "{said}");
        let said = refused(|config| config.database = Some(2));
        assert!(said.contains("database 0 only"), "{said}");
        let said = refused(|config| config.cluster = urls(&["redis://a/3", "redis://b/3"]));
        assert!(said.contains("database 0 only"), "{said}");
        let said = refused(|config| config.cluster = urls(&["redis+unix:///path"]));
        assert!(said.contains("host and port"), "{said}");
        let said = refused(|config| config.cluster = urls(&["rediss://a", "redis://b"]));
        assert!(said.contains("for all nodes or for none"), "{said}");
        let said = refused(|config| config.tls = true);
        assert!(said.contains("for all nodes or for none"), "{said}");
        let said = refused(|config| config.cluster = urls(&["redis://:sesame@a", "redis://b"]));
        assert!(
            said.contains("username") && !said.contains("sesame"),
            "{said}"
        );
    }
}
