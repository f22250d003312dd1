//! `tidegate-pumpd`: the timer daemon. See the library for how it works.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures_util::future::join_all;
use tidegate_pumpd::{Config, LATENESS_BUCKETS, LATENESS_NAME};
use tidegate_service::{ListenLimits, Listener, Sources, logs, metrics};
use tidegate_store::Store;

/// Everything after `key = value` defaults: `config/pumpd.toml`.
const DEFAULTS: &str = include_str!("../../../config/pumpd.toml");
/// How long a scrape may take when the daemon stops.
const ADMIN_DRAIN: Duration = Duration::from_secs(1);

/// Makes jobs consumable when they are due. Run two or more for a deployment: they share the work, and
/// each takes over when another dies.
#[derive(Debug, Parser)]
#[command(name = "tidegate-pumpd", version)]
struct Flags {
    /// File with settings that differ from the defaults (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The Redis deployment of pool default, such as redis://127.0.0.1:6379.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Where metrics are served; port 0 picks a free one.
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,
    /// Name of this instance, which must be unique [default: random].
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// How long a bucket stays with an instance that gives no sign of life, such as 3s.
    #[arg(long, value_name = "DURATION")]
    lease: Option<String>,
    /// Run on a Redis that may lose jobs (no append-only file, or evicting), with a warning.
    #[arg(long)]
    allow_unsafe_redis: bool,
    /// error, warn, info, debug, trace, or a filter such as info,tidegate_pumpd=debug.
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// text or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl Flags {
    fn settings(&self) -> Vec<(&'static str, String)> {
        let unsafe_server = self.allow_unsafe_redis.then(|| "warn".to_owned());
        let given = [
            ("pool.default.url", self.redis.clone()),
            (
                "admin_listen",
                self.admin_listen.map(|address| address.to_string()),
            ),
            ("pump.instance", self.instance.clone()),
            ("pump.lease", self.lease.clone()),
            ("pool.default.unsafe_server", unsafe_server),
            ("log.level", self.log_level.clone()),
            ("log.format", self.log_format.clone()),
        ];
        let given = given.into_iter();
        given
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }
}

fn load(flags: &Flags) -> Result<Config, String> {
    let environment = tidegate_service::process_environment();
    let sources = Sources {
        defaults: DEFAULTS,
        file: flags.config.as_deref(),
        env_prefix: "TIDEGATE",
        environment: &environment,
        flags: &flags.settings(),
    };
    let config: Config = tidegate_service::load(&sources).map_err(|error| error.to_string())?;
    config.pump.check()?;
    Ok(config)
}

#[tokio::main]
async fn main() -> ExitCode {
    match start(&Flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            #[expect(clippy::print_stderr, reason = "logs may not be set up yet")]
            {
                eprintln!("tidegate-pumpd: {problem}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn start(flags: &Flags) -> Result<(), String> {
    let config = load(flags)?;
    logs::init(&config.log).map_err(|error| error.to_string())?;
    let metrics =
        metrics::init(&[(LATENESS_NAME, &LATENESS_BUCKETS)]).map_err(|error| error.to_string())?;
    let stop = tidegate_service::stop_on_signals().map_err(|error| error.to_string())?;
    let listener = Listener::bind("admin", config.admin_listen, ListenLimits::default())
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", config.admin_listen))?;
    let admin = listener.local_addr().map_err(|error| error.to_string())?;
    let Some(stores) = stop.run_until_cancelled(connect_all(&config)).await else {
        return Ok(());
    };
    let stores = stores?;
    tokio::spawn(metrics.clone().upkeep(stop.clone()));
    let router = tidegate_service::admin_router(metrics, Default::default());
    let serving = tokio::spawn(listener.serve(router, stop.clone(), ADMIN_DRAIN));
    tracing::info!(%admin, "ready");
    tidegate_pumpd::describe();
    let pumps = stores.into_iter().map(|(name, store)| {
        let (config, stop) = (config.pump.clone(), stop.clone());
        async move { tidegate_pumpd::run(&name, store, config, stop).await }
    });
    join_all(pumps).await;
    let _ = serving.await;
    Ok(())
}

async fn connect_all(config: &Config) -> Result<Vec<(String, Store)>, String> {
    let mut stores = Vec::new();
    for (name, settings) in &config.pool {
        let store = Store::connect_within(settings, config.connect_patience).await;
        let store = store.map_err(|error| format!("pool {name}: {error}"))?;
        stores.push((name.clone(), store));
    }
    Ok(stores)
}
