//! The flags of `cargo xtask dev`.

use std::path::{Path, PathBuf};

use tidegate_local_broker::BrokerKind;
use tidegate_local_deployment::start::{ApiPorts, DaemonPrograms};

use crate::workspace::Workspace;

/// A broker for `--relay`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum RelayBroker {
    /// NATS with JetStream.
    Nats,
    /// RabbitMQ; takes some seconds to start.
    Rabbitmq,
    /// Kafka; needs Java and Maven.
    Kafka,
}

impl RelayBroker {
    pub(crate) const fn kind(self) -> BrokerKind {
        match self {
            Self::Nats => BrokerKind::Nats,
            Self::Rabbitmq => BrokerKind::RabbitMq,
            Self::Kafka => BrokerKind::Kafka,
        }
    }
}

/// The flags of `dev`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Port of the API on 127.0.0.1.
    #[arg(long, default_value_t = 7777)]
    pub(crate) port: u16,
    /// Admin port of the API on 127.0.0.1.
    #[arg(long, default_value_t = 7778)]
    pub(crate) admin_port: u16,
    /// Use this Redis (redis://HOST:PORT) instead of starting one. It is not stopped at the end.
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<String>,
    /// Use a private Redis Cluster: three primaries with one replica each. Its data are deleted at
    /// the end.
    #[arg(long, conflicts_with = "redis")]
    pub(crate) cluster: bool,
    /// Number of pumps.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) pumps: u8,
    /// Also run a broker, and a relay that passes the jobs of the queue `relayed` on to it. Its data are deleted at the
    /// end.
    #[arg(long, value_enum, value_name = "BROKER")]
    pub(crate) relay: Option<RelayBroker>,
    /// Keep payloads of jobs that are due in half an hour or later in a folder: the cold tier. `target/dev/cold` has them.
    #[arg(long, conflicts_with = "cluster")]
    pub(crate) cold: bool,
    /// Build with the release profile.
    #[arg(long)]
    pub(crate) release: bool,
}

impl Options {
    pub(crate) const fn ports(&self) -> ApiPorts {
        ApiPorts {
            port: self.port,
            admin_port: self.admin_port,
        }
    }

    /// The folder of the programs of the requested profile.
    pub(crate) fn built(&self, workspace: &Workspace) -> PathBuf {
        let profile = if self.release { "release" } else { "debug" };
        workspace.target().join(profile)
    }

    /// The daemons of the requested profile, with their logs in `logs`.
    pub(crate) fn programs(&self, workspace: &Workspace, logs: &Path) -> DaemonPrograms {
        DaemonPrograms::in_folder(&self.built(workspace), logs)
    }
}
