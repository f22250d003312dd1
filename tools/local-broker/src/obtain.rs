//! Finds or downloads a broker.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_local_program::{
    DebianPackages, DownloadSource, FailedSource, ProgramCache, ProgramEntry, command,
    workspace_cache as cache_named,
};

use crate::error::LocalBrokerError;
use crate::kind::BrokerKind;
use crate::{kafka, nats, rabbitmq};

const DEBIAN: &str = "Debian packages";

/// A broker on this machine, which has been run once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerProgram {
    pub(crate) kind: BrokerKind,
    /// NATS: the program. RabbitMQ: a folder with `usr/lib/erlang` and `usr/lib/rabbitmq`. Kafka: a folder with `jars`.
    pub(crate) path: PathBuf,
}

impl fmt::Display for BrokerProgram {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.kind, self.path.display())
    }
}

/// Returns the cache folder of this workspace: `target/brokers` in its root.
#[must_use]
pub fn workspace_cache() -> PathBuf {
    cache_named("brokers")
}

/// Returns a broker. NATS: the `nats-server` on PATH, else the Debian package. RabbitMQ: the Debian package. Kafka: the
/// packages that the `mvn` on PATH resolves, for the `java` on PATH. Packages are downloaded into `cache` once and
/// unpacked, not installed. Several processes may call this at once: one downloads, the others wait for it. `progress`
/// receives short lines about steps that take time.
///
/// # Errors
/// [`LocalBrokerError::NotObtained`] with the reason of every source.
pub fn obtain(
    kind: BrokerKind,
    cache: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<BrokerProgram, LocalBrokerError> {
    let mut tried = Vec::new();
    if kind == BrokerKind::Nats {
        match command::on_path("nats-server").next() {
            Some(path) => return Ok(BrokerProgram { kind, path }),
            None => tried.push(FailedSource::new("PATH", "no nats-server")),
        }
    }
    let check = |folder: &Path| check(kind, folder);
    let entry = ProgramEntry {
        name: match kind {
            BrokerKind::Nats => "nats",
            BrokerKind::RabbitMq => "rabbitmq",
            BrokerKind::Kafka => "kafka",
        },
        wanted: match kind {
            BrokerKind::Nats => "nats-server",
            BrokerKind::RabbitMq => "rabbitmq-server",
            BrokerKind::Kafka => "Kafka",
        },
        check: &check,
    };
    let nats = |folder: &Path, progress: &mut dyn FnMut(&str)| {
        unpack("nats-server", &[], folder, progress)
    };
    let rabbitmq = |folder: &Path, progress: &mut dyn FnMut(&str)| {
        unpack("rabbitmq-server", &rabbitmq::PACKAGES, folder, progress)?;
        rabbitmq::make_relocatable(folder).map_err(|error| format!("unpacking: {error}"))
    };
    let source: DownloadSource<'_> = match kind {
        BrokerKind::Nats => (DEBIAN, &nats),
        BrokerKind::RabbitMq => (DEBIAN, &rabbitmq),
        BrokerKind::Kafka => ("Maven", &kafka::fetch),
    };
    let sources = [source];
    ProgramCache::new(cache)
        .obtain(&entry, tried, &sources, progress)
        .map_err(|source| LocalBrokerError::NotObtained { kind, source })
}

/// Accepts the program in a folder of the cache if it runs on this machine.
fn check(kind: BrokerKind, folder: &Path) -> Result<BrokerProgram, String> {
    let path = match kind {
        BrokerKind::Nats => nats::program_in(folder)?,
        BrokerKind::RabbitMq => rabbitmq::check(folder)?,
        BrokerKind::Kafka => kafka::check(folder)?,
    };
    Ok(BrokerProgram { kind, path })
}

/// Fills an empty folder with the files of Debian's packages.
fn unpack(
    wanted: &'static str,
    always: &[&'static str],
    folder: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let work = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
    let tree = DebianPackages { wanted, always }.unpack(work.path(), progress)?;
    let keep = |name: &str| {
        let from = tree.join(name);
        if from.is_dir() {
            fs::rename(from, folder.join(name))
        } else {
            Ok(())
        }
    };
    ["usr", "lib"]
        .into_iter()
        .try_for_each(keep)
        .map_err(|error| format!("unpacking: {error}"))
}
