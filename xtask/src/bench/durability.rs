//! What the publishes of a run wait for, and the servers that it takes.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_local_redis::{
    self as local_redis, RedisServer, ServerBinary, obtain, obtain_valkey, workspace_cache,
};

use crate::dev::Ending;
use crate::dev::signals::Signals;

/// How long a replica may take to follow an empty server.
const FOLLOW_LIMIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);
/// What a replica writes into its log when it has what its server has.
const FOLLOWS: &str = "Finished with success";

/// A durability as `config/api.toml` names it, and settings of Redis.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Durability {
    /// What publishes wait for: memory, replica:N, fsync, fsync+replica:N. Replicas are started, and a Valkey where Redis 7.0
    /// does not know fsync.
    #[arg(long, value_name = "DURABILITY", default_value = "memory")]
    durability: String,
    /// A setting of Redis, such as appendfsync=always; can be given several times.
    #[arg(long = "redis-setting", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=');
    let (name, value) = pair.ok_or_else(|| "expected NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Durability {
    pub(super) fn obtain(&self) -> Result<ServerBinary, Ending> {
        let mut tell = |line: &str| println!("{line}");
        let obtained = match self.durability.contains("fsync") {
            true => obtain_valkey(&workspace_cache(), &mut tell),
            false => obtain(&workspace_cache(), &mut tell),
        };
        obtained.map_err(|error| Ending::Failed(error.to_string()))
    }

    pub(super) fn server(&self, binary: &ServerBinary) -> Result<RedisServer, Ending> {
        start(self.options(binary))
    }

    /// The replicas, once they follow.
    pub(super) fn replicas(
        &self,
        binary: &ServerBinary,
        of: &RedisServer,
        signals: &Signals,
    ) -> Result<Vec<RedisServer>, Ending> {
        let count = self.durability.split_once("replica:");
        let count = count.and_then(|(_, count)| count.parse().ok()).unwrap_or(0);
        let follows = format!("127.0.0.1 {}", of.port());
        let started = (0..count)
            .map(|_: u8| start(self.options(binary).setting("replicaof", follows.as_str())));
        let replicas: Vec<RedisServer> = started.collect::<Result<_, _>>()?;
        let deadline = Instant::now() + FOLLOW_LIMIT;
        let follows = |replica: &RedisServer| {
            fs::read_to_string(replica.log_path()).is_ok_and(|log| log.contains(FOLLOWS))
        };
        while !replicas.iter().all(follows) {
            signals.check()?;
            if Instant::now() > deadline {
                return Err(Ending::Failed("a replica does not follow".to_owned()));
            }
            sleep(PAUSE);
        }
        Ok(replicas)
    }

    /// Flags of the API: a file of settings below this folder.
    pub(super) fn flags_of_api(&self, folder: &Path) -> Result<[String; 2], Ending> {
        let file = folder.join("durability.toml");
        let text = format!("[durability]\ndefault = \"{}\"\n", self.durability);
        let written = fs::write(&file, text);
        written.map_err(|error| Ending::Failed(format!("{}: {error}", file.display())))?;
        Ok(["--config".to_owned(), file.display().to_string()])
    }

    fn options(&self, binary: &ServerBinary) -> local_redis::Options {
        let options =
            local_redis::Options::new(binary.clone()).setting("repl-diskless-sync-delay", "0");
        let settings = self.settings.iter();
        settings.fold(options, |options, (name, value)| {
            options.setting(name, value)
        })
    }
}

fn start(options: local_redis::Options) -> Result<RedisServer, Ending> {
    RedisServer::start(options).map_err(|error| Ending::Failed(error.to_string()))
}
