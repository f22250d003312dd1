//! A daemon with a clock of its own, and proxies on its ways.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use tidegate_testkit::{Daemon, FaultProxy, Program, WallClock};

use super::Keeper;
use crate::plan::Plan;

/// One daemon.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) daemon: Daemon,
    pub(crate) clock: WallClock,
    /// Between it and each Redis, unless it finds its way by sentinels or on a cluster.
    pub(crate) links: Vec<FaultProxy>,
    /// Between clients and an API.
    front: Option<FaultProxy>,
    settings: Settings,
}

/// Which daemon to start.
pub(super) struct Wanted<'a> {
    pub(super) program: Program,
    /// Counts all daemons of the run.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) flags: &'a [String],
    pub(super) more_settings: String,
}

impl Pod {
    pub(super) async fn start(
        wanted: Wanted<'_>,
        keeper: &Keeper,
        plan: &Plan,
        folder: &Path,
    ) -> Self {
        let Wanted { program, name, .. } = wanted;
        let distance = plan.distance(wanted.number);
        let mut links = Vec::new();
        for address in keeper.alone() {
            let listen = (Ipv4Addr::LOCALHOST, 0).into();
            links.push(FaultProxy::start_at(listen, address, distance, plan.seed).await);
        }
        let settings = Settings {
            file: folder.join(format!("{name}.toml")),
            program,
            more: wanted.more_settings,
        };
        settings.write(keeper, &name, &links);
        let mut all = vec!["--config".to_owned(), settings.file.display().to_string()];
        all.extend_from_slice(wanted.flags);
        let clock = WallClock::new(folder, &name);
        let environment = clock.environment();
        let environment = environment
            .each_ref()
            .map(|(key, value)| (*key, value.as_str()));
        let daemon = Daemon::start_with(program, &name, &all, &environment, folder).await;
        let front = match program {
            Program::Api => Some(FaultProxy::start(daemon.listen(), plan.seed).await),
            Program::Pumpd => None,
        };
        Self {
            name,
            daemon,
            clock,
            links,
            front,
            settings,
        }
    }

    /// The way of clients to this API.
    pub(crate) fn front(&self) -> &FaultProxy {
        self.front.as_ref().expect("an api has clients")
    }

    /// Writes its settings again, as they are now. It reads them when it is restarted.
    pub(crate) fn change_settings(&self, keeper: &Keeper) {
        self.settings.write(keeper, &self.name, &self.links);
    }
}

/// The settings of one daemon.
#[derive(Debug)]
struct Settings {
    file: PathBuf,
    program: Program,
    more: String,
}

impl Settings {
    fn write(&self, keeper: &Keeper, name: &str, links: &[FaultProxy]) {
        let addresses: Vec<SocketAddr> = links.iter().map(FaultProxy::address).collect();
        let settings = keeper.settings(self.program, name, &addresses);
        std::fs::write(&self.file, settings + &self.more).expect("a file can be written");
    }
}
