//! From settings to the nodes of a cluster.

use redis::{ConnectionAddr, ConnectionInfo, RedisConnectionInfo};

use super::{Access, Place, Route, login, refuse_keys_of_sentinels, url};
use crate::StoreConfig;
use crate::link::server::Waits;
use crate::link::tls::Tls;

/// The nodes to begin with. What their urls say besides places holds for all nodes of the cluster, so
/// they have to agree.
pub(super) fn route(config: &StoreConfig) -> Result<Route, String> {
    refuse_keys_of_sentinels(config)?;
    let infos: Result<Vec<ConnectionInfo>, String> = config
        .cluster
        .iter()
        .map(|text| url("cluster", text))
        .collect();
    let infos = infos?;
    let seeds: Result<Vec<(Place, bool)>, String> = infos.iter().map(place).collect();
    let seeds = seeds?;
    let is_tls = seeds.iter().any(|(_, is_tls)| *is_tls);
    if (is_tls || config.tls) && seeds.iter().any(|(_, is_tls)| !is_tls) {
        return Err(
            "cluster: TLS is for all nodes or for none: write rediss://host:port for each"
                .to_owned(),
        );
    }
    let of_urls = common_login(&infos)?;
    let login = login(config, of_urls)?;
    if login.db() != 0 {
        return Err(format!(
            "a cluster has database 0 only: leave out database {}",
            login.db()
        ));
    }
    let access = Access {
        login,
        tls: Tls::new(config, is_tls, "rediss://")?,
        waits: Waits::of(config),
    };
    let places = seeds.into_iter().map(|(place, _)| place);
    Ok(Route::Cluster(places.collect(), access))
}

/// The place that a url names, and whether it is reached over TLS.
fn place(info: &ConnectionInfo) -> Result<(Place, bool), String> {
    let (host, port, is_tls) = match info.addr() {
        ConnectionAddr::Tcp(host, port) => (host, port, false),
        ConnectionAddr::TcpTls { host, port, .. } => (host, port, true),
        _ => {
            return Err(
                "cluster: nodes are reached by host and port, not over a socket of the file system: \
                 write redis://host:port"
                    .to_owned(),
            );
        }
    };
    let place = Place {
        host: host.clone(),
        port: *port,
    };
    Ok((place, is_tls))
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
            "cluster: all nodes have the same user and password: name them with the keys username \
             and password, once"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(change: impl FnOnce(&mut StoreConfig)) -> Result<Route, String> {
        let mut config = StoreConfig::new("");
        config.cluster = vec!["redis://a:1".to_owned(), "redis://b".to_owned()];
        change(&mut config);
        Route::new(&config)
    }

    fn refused(change: impl FnOnce(&mut StoreConfig)) -> String {
        made(change).err().unwrap()
    }

    fn urls(urls: &[&str]) -> Vec<String> {
        urls.iter().map(|url| (*url).to_owned()).collect()
    }

    #[test]
    fn nodes_are_places_with_one_login() {
        let Ok(Route::Cluster(seeds, access)) = made(|config| {
            config.cluster = urls(&["redis://:sesame@a:1", "redis://:sesame@b"]);
        }) else {
            panic!("not accepted");
        };
        let seeds: Vec<String> = seeds.iter().map(Place::to_string).collect();
        assert_eq!(seeds, ["a:1", "b:6379"]);
        assert_eq!(access.login.password(), Some("sesame"));
    }

    #[test]
    fn what_a_cluster_cannot_be_is_named_with_the_remedy() {
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
