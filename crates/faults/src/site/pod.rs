//! A daemon with a clock of its own, and proxies on its ways.

use std::path::Path;

use tidegate_testkit::{Daemon, FaultProxy, Program, WallClock};

use super::Keeper;

/// One daemon.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) daemon: Daemon,
    pub(crate) clock: WallClock,
    /// Between it and Redis, unless it asks sentinels for the way.
    pub(crate) link: Option<FaultProxy>,
    /// Between clients and an API.
    front: Option<FaultProxy>,
}

impl Pod {
    pub(super) async fn start(
        program: Program,
        name: &str,
        arguments: &[String],
        more_settings: &str,
        keeper: &Keeper,
        seed: u64,
        folder: &Path,
    ) -> Self {
        let link = match keeper.one_redis() {
            Some(address) => Some(FaultProxy::start(address, seed).await),
            None => None,
        };
        let config = folder.join(format!("{name}.toml"));
        let settings = keeper.settings(link.as_ref().map(FaultProxy::address));
        std::fs::write(&config, settings + more_settings).expect("a file can be written");
        let mut all = vec!["--config".to_owned(), config.display().to_string()];
        all.extend_from_slice(arguments);
        let clock = WallClock::new(folder, name);
        let environment = clock.environment();
        let environment = environment
            .each_ref()
            .map(|(key, value)| (*key, value.as_str()));
        let daemon = Daemon::start_with(program, name, &all, &environment, folder).await;
        let front = match program {
            Program::Api => Some(FaultProxy::start(daemon.listen(), seed).await),
            Program::Pumpd => None,
        };
        Self {
            name: name.to_owned(),
            daemon,
            clock,
            link,
            front,
        }
    }

    /// The way of clients to this API.
    pub(crate) fn front(&self) -> &FaultProxy {
        self.front.as_ref().expect("an api has clients")
    }
}
