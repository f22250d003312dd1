//! A daemon with a separate wall clock and with proxies on its connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use tidegate_testkit::{Daemon, DaemonProgram, FaultProxy, WallClock};

use super::RedisBackend;
use crate::plan::Plan;

#[derive(Debug)]
pub(crate) struct DaemonUnderTest {
    pub(crate) name: String,
    pub(crate) daemon: Daemon,
    pub(crate) clock: WallClock,
    /// The proxies to each Redis; empty with sentinels and on a cluster.
    pub(crate) redis_proxies: Vec<FaultProxy>,
    /// The proxy between clients and an API.
    client_proxy: Option<FaultProxy>,
    settings: DaemonSettings,
}

/// The daemon to start.
pub(super) struct DaemonSpec<'a> {
    pub(super) program: DaemonProgram,
    /// Its number among all daemons of the run.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) flags: &'a [String],
    /// Keys before all tables, in TOML.
    pub(super) first_settings: String,
    /// Further tables.
    pub(super) more_settings: String,
}

impl DaemonUnderTest {
    pub(crate) fn is_api(&self) -> bool {
        matches!(self.settings.program, DaemonProgram::Api)
    }

    pub(super) async fn start(
        wanted: DaemonSpec<'_>,
        backend: &RedisBackend,
        plan: &Plan,
        folder: &Path,
    ) -> Self {
        let DaemonSpec { program, name, .. } = wanted;
        let distance = plan.latency(wanted.number);
        let mut links = Vec::new();
        for address in backend.standalone_addresses() {
            let listen = (Ipv4Addr::LOCALHOST, 0).into();
            links.push(FaultProxy::start_at(listen, address, distance, plan.seed).await);
        }
        let settings = DaemonSettings {
            file: folder.join(format!("{name}.toml")),
            program,
            first: wanted.first_settings,
            more: wanted.more_settings,
        };
        settings.write(backend, &name, &links);
        let mut all = vec!["--config".to_owned(), settings.file.display().to_string()];
        all.extend_from_slice(wanted.flags);
        let clock = WallClock::new(folder, &name);
        let environment = clock.environment();
        let environment = environment
            .each_ref()
            .map(|(key, value)| (*key, value.as_str()));
        let daemon = Daemon::start_with(program, &name, &all, &environment, folder).await;
        let front = match program {
            DaemonProgram::Api => Some(FaultProxy::start(daemon.listen(), plan.seed).await),
            DaemonProgram::Pumpd | DaemonProgram::Relayd => None,
        };
        Self {
            name,
            daemon,
            clock,
            redis_proxies: links,
            client_proxy: front,
            settings,
        }
    }

    /// Returns the proxy of clients to this API.
    pub(crate) fn client_proxy(&self) -> &FaultProxy {
        self.client_proxy.as_ref().expect("an api has clients")
    }

    /// Writes its current settings. They take effect when it is restarted.
    pub(crate) fn change_settings(&self, backend: &RedisBackend) {
        self.settings
            .write(backend, &self.name, &self.redis_proxies);
    }
}

#[derive(Debug)]
struct DaemonSettings {
    file: PathBuf,
    program: DaemonProgram,
    first: String,
    more: String,
}

impl DaemonSettings {
    fn write(&self, backend: &RedisBackend, name: &str, links: &[FaultProxy]) {
        let addresses: Vec<SocketAddr> = links.iter().map(FaultProxy::address).collect();
        let settings = backend.settings(self.program, name, &addresses);
        let text = [&self.first, settings.as_str(), &self.more].concat();
        std::fs::write(&self.file, text).expect("a file can be written");
    }
}
