//! An API with a proxy between it and Redis.

use std::time::Duration;

use crate::daemon::Daemon;
use crate::fault_proxy::{DirectionConditions, FaultProxy, ForwardMode, NetworkConditions};
use crate::program::DaemonProgram;
use crate::queue::QueueClient;
use crate::seed::seed;
use crate::stack::Stack;
use tempfile::TempDir;

const STALLED: NetworkConditions = NetworkConditions {
    to_server: DirectionConditions {
        mode: ForwardMode::Stalls,
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        bytes_per_second: None,
    },
    to_client: DirectionConditions {
        mode: ForwardMode::Passes,
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        bytes_per_second: None,
    },
    resets_connections: false,
};

/// An API whose way to the Redis of a stack can be stalled or slow.
#[derive(Debug)]
pub struct FarApi {
    pub api: Daemon,
    pub way: FaultProxy,
    _folder: TempDir,
}

impl FarApi {
    /// Starts an API on the Redis of `stack`; `command_timeout` as in its settings.
    ///
    /// # Panics
    /// The daemon does not start.
    pub async fn start(stack: &Stack, command_timeout: &str) -> Self {
        let way = FaultProxy::start(stack.redis.address(), seed()).await;
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("api.toml");
        let pool = format!(
            "[pool.default]\nurl = \"redis://{}\"\ncommand_timeout = \"{command_timeout}\"\n",
            way.address()
        );
        std::fs::write(&config, pool).expect("the settings are written");
        let arguments = ["--config".to_owned(), config.display().to_string()];
        let api = Daemon::start(DaemonProgram::Api, "far", &arguments, folder.path()).await;
        Self {
            api,
            way,
            _folder: folder,
        }
    }

    /// Stalls its way just after a publish: for a second it knows the token, so that publishes get as far as their
    /// lanes.
    pub async fn stall(&self, queue: &QueueClient) {
        let known = queue.on_api(&self.api).publish("known").id().await;
        queue.ack(&known).await;
        self.way.set(STALLED);
    }

    /// Has each call take so much longer from now on.
    pub fn slow_down(&self, delay: Duration) {
        let to_server = DirectionConditions {
            delay,
            ..DirectionConditions::default()
        };
        self.way.set(NetworkConditions {
            to_server,
            ..NetworkConditions::default()
        });
    }
}
