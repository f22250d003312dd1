//! Durability of the publishes of a run, and the servers that it needs.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_local_redis::{
    self as local_redis, RedisServer, ServerBinary, obtain, obtain_valkey, workspace_cache,
};

use tidegate_local_deployment::{CommandError, StopRequests};

/// Time limit of the first sync of a replica.
const FOLLOW_LIMIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);
/// Text in the log of a replica when the sync has finished.
const FOLLOWS: &str = "Finished with success";

/// Flags: a durability as in `config/api.toml`, and settings of Redis.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct BenchDurability {
    /// Durability that publishes wait for: memory, replica:N, fsync or fsync+replica:N. Starts N replicas; fsync uses a
    /// Valkey, since Redis 7.0 has no WAITAOF.
    #[arg(long, value_name = "DURABILITY", default_value = "memory")]
    durability: String,
    /// Setting of Redis, such as appendfsync=always; repeatable.
    #[arg(long = "redis-setting", value_name = "NAME=VALUE", value_parser = parse_setting)]
    settings: Vec<(String, String)>,
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=');
    let (name, value) = pair.ok_or_else(|| "expected NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

impl BenchDurability {
    pub(super) fn obtain_server(&self) -> Result<ServerBinary, CommandError> {
        let mut tell = |line: &str| println!("{line}");
        let obtained = match self.durability.contains("fsync") {
            true => obtain_valkey(&workspace_cache(), &mut tell),
            false => obtain(&workspace_cache(), &mut tell),
        };
        obtained.map_err(|error| CommandError::Failed(error.to_string()))
    }

    pub(super) fn server(&self, binary: &ServerBinary) -> Result<RedisServer, CommandError> {
        start(self.options(binary))
    }

    /// Starts the replicas and waits until they are in sync.
    pub(super) fn replicas(
        &self,
        binary: &ServerBinary,
        of: &RedisServer,
        signals: &StopRequests,
    ) -> Result<Vec<RedisServer>, CommandError> {
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
            signals.check_not_requested()?;
            if Instant::now() > deadline {
                return Err(CommandError::Failed(
                    "a replica did not sync within 20 s".to_owned(),
                ));
            }
            sleep(PAUSE);
        }
        Ok(replicas)
    }

    /// The settings of the API, in TOML.
    pub(super) fn settings_of_api(&self) -> String {
        format!("[durability]\ndefault = \"{}\"\n", self.durability)
    }

    fn options(&self, binary: &ServerBinary) -> local_redis::LocalRedisOptions {
        let options = local_redis::LocalRedisOptions::new(binary.clone())
            .setting("repl-diskless-sync-delay", "0");
        let settings = self.settings.iter();
        settings.fold(options, |options, (name, value)| {
            options.setting(name, value)
        })
    }
}

fn start(options: local_redis::LocalRedisOptions) -> Result<RedisServer, CommandError> {
    RedisServer::start(options).map_err(|error| CommandError::Failed(error.to_string()))
}
