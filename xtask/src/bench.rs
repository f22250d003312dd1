//! `cargo xtask bench`: runs the load generator against a deployment on this machine.

mod durability;
mod scenarios;
mod versus;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};
use tidegate_local_deployment::start::{API, PUMP, start_api, start_pumps};
use tidegate_local_deployment::{CommandError, DevSession, StopRequests, state_folder};
use tidegate_local_redis::{RedisServer, ServerBinary, free_port};

use crate::dev::{self, cluster, start};
use crate::workspace::Workspace;
use durability::BenchDurability;
use scenarios::{BenchScenario, BenchStackKind, SCENARIOS};
use versus::VersusOptions;

const LOADGEN: &str = "tidegate-loadgen";
const PUMPS: u8 = 2;

/// The flags of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchOptions {
    /// Scenarios to measure [default: all].
    #[arg(value_name = "SCENARIO", value_parser = scenarios::names())]
    scenarios: Vec<String>,
    /// Run each scenario for a few seconds with small numbers. To try the command; the figures are
    /// not meaningful.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    durability: BenchDurability,
    #[command(flatten)]
    versus: VersusOptions,
    /// Flags for the scenario, after `--`; see `tidegate-loadgen SCENARIO --help`.
    #[arg(last = true, value_name = "FLAGS")]
    further: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &BenchOptions) -> ExitCode {
    let measured = StopRequests::install()
        .map_err(|error| {
            CommandError::Failed(format!("failed to install signal handlers: {error}"))
        })
        .and_then(|signals| measure(workspace, options, &signals));
    match measured {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(CommandError::Interrupted) => ExitCode::FAILURE,
        Err(CommandError::Failed(reason)) => {
            eprintln!("\nerror: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether all figures are valid.
fn measure(
    workspace: &Workspace,
    options: &BenchOptions,
    signals: &StopRequests,
) -> Result<bool, CommandError> {
    let wanted = options.versus.scenarios(&options.scenarios)?;
    let folder = workspace.target().join("bench");
    let _lock = state_folder::lock(&folder)?;
    let binary = options.durability.obtain_server()?;
    start::build(workspace, &[API, PUMP, LOADGEN], true, signals)?;
    let is_wanted =
        |scenario: &&BenchScenario| wanted.is_empty() || wanted.contains(&scenario.name);
    let mut reports = Vec::new();
    for scenario in SCENARIOS.iter().filter(is_wanted) {
        let file = folder.join(format!("{}.json", scenario.name));
        let start = |kind, folder: &Path| {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            BenchStack::start(workspace, options, &binary, folder, kind, signals)
        };
        let stack = start(scenario.stack, &folder)?;
        let versus = scenario
            .versus
            .map(|kind| start(kind, &folder.join("versus")));
        let versus = versus.transpose()?;
        stack.measure(versus.as_ref(), scenario, options, &file, signals)?;
        let outcome = read(&file)?;
        reports.extend(outcome["reports"].as_array().cloned().unwrap_or_default());
    }
    let written = write(&folder, &binary, &reports)?;
    println!("\nall reports: {}", workspace.display(&written));
    let counts = |report: &Value| report["problems"].as_array().is_some_and(Vec::is_empty);
    Ok(reports.iter().all(counts))
}

/// A Redis, its replicas if publishes wait for any, one API, two pumps. Dropping it stops them.
struct BenchStack {
    session: DevSession,
    options: dev::Options,
    /// The Redis URL for the load generator; `None` for a cluster, whose memory is not measured.
    redis_url: Option<String>,
    loadgen: PathBuf,
    replicas: Vec<RedisServer>,
}

impl BenchStack {
    fn start(
        workspace: &Workspace,
        wanted: &BenchOptions,
        binary: &ServerBinary,
        folder: &Path,
        kind: BenchStackKind,
        signals: &StopRequests,
    ) -> Result<Self, CommandError> {
        let port = || free_port().ok_or_else(|| "no free port".to_owned());
        let options = dev::Options {
            port: port()?,
            admin_port: port()?,
            redis: None,
            cluster: kind == BenchStackKind::Cluster,
            pumps: PUMPS,
            relay: None,
            cold: kind == BenchStackKind::Cold,
            release: true,
        };
        let mut stack = Self {
            loadgen: options.built(workspace).join(LOADGEN),
            redis_url: None,
            session: DevSession::default(),
            options,
            replicas: Vec::new(),
        };
        let Self {
            session,
            options,
            redis_url,
            replicas,
            ..
        } = &mut stack;
        let programs = options.programs(workspace, folder);
        let (of_api, of_pumps) = match kind {
            BenchStackKind::One | BenchStackKind::Cold => {
                let redis = wanted.durability.server(binary)?;
                *replicas = wanted.durability.replicas(binary, &redis, signals)?;
                let url = redis_url.insert(redis.url()).clone();
                session.redis = Some(redis);
                let mut of_pumps = vec!["--redis".to_owned(), url];
                let mut of_api = of_pumps.clone();
                let mut settings = wanted.durability.settings_of_api();
                if options.cold {
                    let cold = start::cold_settings(folder)?;
                    let file = folder.join("pump.toml");
                    of_pumps.extend(start::settings_arguments(&file, &cold)?);
                    settings += &cold;
                }
                let file = folder.join("api.toml");
                of_api.extend(start::settings_arguments(&file, &settings)?);
                (of_api, of_pumps)
            }
            BenchStackKind::Cluster => {
                let cluster = session.cluster.insert(cluster::start(binary.clone(), 0)?);
                let arguments = cluster::arguments(cluster, folder)?;
                (arguments.clone(), arguments)
            }
        };
        start_api(&programs, options.ports(), &of_api, session, signals)?;
        start_pumps(&programs, options.pumps, &of_pumps, session, signals)?;
        Ok(stack)
    }

    fn measure(
        &self,
        versus: Option<&Self>,
        scenario: &BenchScenario,
        options: &BenchOptions,
        file: &Path,
        signals: &StopRequests,
    ) -> Result<(), CommandError> {
        let _ = fs::remove_file(file);
        let mut command = Command::new(&self.loadgen);
        let (first, second) = (
            ["--target", "--admin", "--redis", "--pid"],
            ["--vs", "--vs-admin", "--vs-redis", "--vs-pid"],
        );
        let other_server = options.versus.flags();
        if other_server.is_empty() {
            command.args(self.address_flags(first));
            command.args(versus.map_or_else(Vec::new, |versus| versus.address_flags(second)));
        } else {
            command.args(other_server).args(self.address_flags(second));
        }
        command
            .arg("--json")
            .arg(file)
            .arg(scenario.command)
            .args(scenario.flags(options.quick))
            .args(&options.further);
        let child = command
            .spawn()
            .map_err(|error| format!("failed to run {LOADGEN}: {error}"))?;
        start::wait_for(child, signals)?;
        // A report has its problems, so the exit status does not matter. Without one the load generator has printed an
        // error.
        match file.is_file() {
            true => Ok(()),
            false => Err(CommandError::Failed(format!(
                "{} wrote no report; see above",
                scenario.name
            ))),
        }
    }

    /// Flags with the addresses of the API, admin port and Redis, and with the processes.
    fn address_flags(&self, [target, admin, redis, pid]: [&str; 4]) -> Vec<String> {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let ports = [
            (target, url(self.options.port)),
            (admin, url(self.options.admin_port)),
        ];
        let redis = self.redis_url.iter().map(|url| (redis, url.clone()));
        let processes = self.processes().map(|process| (pid, process));
        let all = ports.into_iter().chain(redis).chain(processes);
        all.flat_map(|(flag, value)| [flag.to_owned(), value])
            .collect()
    }

    /// Returns `name=pid` of every process.
    fn processes(&self) -> impl Iterator<Item = String> {
        let redis = self.session.redis.as_ref().and_then(RedisServer::pid);
        let daemons = self.session.daemons.iter().map(|daemon| {
            let name = daemon.name().trim_start_matches("tidegate-");
            format!("{name}={}", daemon.pid())
        });
        let nodes = self.session.cluster.iter().flat_map(|one| &one.servers);
        let nodes = nodes.filter_map(RedisServer::pid).zip(1..);
        let nodes = nodes.map(|(pid, number)| format!("redis-{number}={pid}"));
        let redis = redis.map(|pid| format!("redis={pid}"));
        daemons.chain(redis).chain(nodes)
    }
}

fn read(file: &Path) -> Result<Value, CommandError> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let outcome = serde_json::from_str(&text);
    outcome.map_err(|error| CommandError::Failed(format!("{}: {error}", file.display())))
}

fn write(folder: &Path, binary: &ServerBinary, reports: &[Value]) -> Result<PathBuf, CommandError> {
    let now = format!("{:.0}", jiff::Timestamp::now());
    let path = folder.join(format!("{}.json", now.replace(':', "-")));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let all = json!({"time": now, "redis": binary.to_string(), "cores": cores, "reports": reports});
    let text = format!("{all:#}\n");
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
