//! `cargo xtask bench`: runs the load generator against a deployment on this machine.

mod durability;
mod scenarios;
mod table;
mod versus;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::{Value, json};
use tidegate_local_deployment::start::{API, PUMP, start_api, start_pumps};
use tidegate_local_deployment::{CommandError, DevSession, StopRequests, state_folder};
use tidegate_local_redis::{RedisServer, ServerBinary, free_port};

use crate::dev::{self, cluster, start};
use crate::workspace::Workspace;
use durability::BenchDurability;
use scenarios::{BenchScenario, SCENARIOS};
use versus::VersusOptions;

const LOADGEN: &str = "tidegate-loadgen";
const PUMPS: u8 = 2;
/// The folder of charts that are kept.
const CURVES: &str = "docs/benchmarks";
const RATIOS: &str = "ratios.svg";

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
    /// Draw the curves, or with --vs the ratios, as SVG files into docs/benchmarks.
    #[arg(long)]
    plots: bool,
    /// Measure nothing, and draw the ratios of this file into docs/benchmarks/ratios.svg. It has the format of
    /// tidegate-loadgen --vs --json; its name is the name of the other server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenarios", "vs", "plots", "quick"])]
    ratios: Option<PathBuf>,
    /// Flags for the scenario, after `--`; see `tidegate-loadgen SCENARIO --help`.
    #[arg(last = true, value_name = "FLAGS")]
    further: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &BenchOptions) -> ExitCode {
    let measured = StopRequests::install()
        .map_err(|error| {
            CommandError::Failed(format!("failed to install signal handlers: {error}"))
        })
        .and_then(|signals| match &options.ratios {
            Some(file) => draw_kept(workspace, file, &signals).map(|()| true),
            None => measure(workspace, options, &signals),
        });
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
    state_folder::check_no_daemons(&folder)?;
    let binary = options.durability.obtain_server()?;
    start::build(workspace, &[API, PUMP, LOADGEN], true, signals)?;
    let is_wanted =
        |scenario: &&BenchScenario| wanted.is_empty() || wanted.contains(&scenario.name);
    let (mut reports, mut files) = (Vec::new(), Vec::new());
    for scenario in SCENARIOS.iter().filter(is_wanted) {
        let file = folder.join(format!("{}.json", scenario.name));
        let stack = BenchStack::start(
            workspace,
            options,
            &binary,
            &folder,
            BenchRedis::One,
            signals,
        )?;
        let versus = match scenario.versus_cluster {
            true => {
                let folder = folder.join("cluster");
                fs::create_dir_all(&folder)
                    .map_err(|error| format!("{}: {error}", folder.display()))?;
                let stack = BenchStack::start(
                    workspace,
                    options,
                    &binary,
                    &folder,
                    BenchRedis::Cluster,
                    signals,
                );
                Some(stack?)
            }
            false => None,
        };
        stack.measure(versus.as_ref(), scenario, options, &file, signals)?;
        let outcome = read(&file)?;
        reports.extend(outcome["reports"].as_array().cloned().unwrap_or_default());
        let sides = options.versus.sides(scenario);
        print!("{}", table::comparisons(scenario.name, sides, &outcome));
        files.push(file);
    }
    match options.versus.name() {
        Some(_) => print!("{}", table::problems(&reports)),
        None => print!("{}", table::table(&reports)),
    }
    let written = write(&folder, &binary, &reports)?;
    println!("\nall reports: {}", workspace.display(&written));
    draw(workspace, options, &files, signals)?;
    let counts = |report: &Value| report["problems"].as_array().is_some_and(Vec::is_empty);
    Ok(reports.iter().all(counts))
}

/// The Redis of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BenchRedis {
    One,
    /// Three primaries.
    Cluster,
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
        redis: BenchRedis,
        signals: &StopRequests,
    ) -> Result<Self, CommandError> {
        let port = || free_port().ok_or_else(|| "no free port".to_owned());
        let options = dev::Options {
            port: port()?,
            admin_port: port()?,
            redis: None,
            cluster: redis == BenchRedis::Cluster,
            pumps: PUMPS,
            relay: None,
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
        let (arguments, of_api) = match redis {
            BenchRedis::One => {
                let redis = wanted.durability.server(binary)?;
                *replicas = wanted.durability.replicas(binary, &redis, signals)?;
                let url = redis_url.insert(redis.url()).clone();
                session.redis = Some(redis);
                let arguments = vec!["--redis".to_owned(), url];
                (arguments, wanted.durability.flags_of_api(folder)?.to_vec())
            }
            BenchRedis::Cluster => {
                let cluster = session.cluster.insert(cluster::start(binary.clone(), 0)?);
                (cluster::arguments(cluster, folder)?, Vec::new())
            }
        };
        let of_api = [&arguments[..], &of_api].concat();
        start_api(&programs, options.ports(), &of_api, session, signals)?;
        start_pumps(&programs, options.pumps, &arguments, session, signals)?;
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
            .args(&options.further)
            .stdout(Stdio::null());
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

/// Draws the ratios of results that were kept.
fn draw_kept(
    workspace: &Workspace,
    file: &Path,
    signals: &StopRequests,
) -> Result<(), CommandError> {
    start::build(workspace, &[LOADGEN], true, signals)?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let svg = workspace.root().join(CURVES).join(RATIOS);
    let mut command = loadgen(workspace);
    plot_ratios(&mut command, &name, &[file.to_owned()], &svg);
    run_drawing(command, signals)
}

fn loadgen(workspace: &Workspace) -> Command {
    Command::new(workspace.target().join("release").join(LOADGEN))
}

fn plot_ratios(command: &mut Command, other: &str, files: &[PathBuf], svg: &Path) {
    let title = format!("Tidegate / {other}");
    command.args(["plot-ratios", "--title", &title]).args(files);
    command.arg("--svg").arg(svg);
}

fn run_drawing(mut command: Command, signals: &StopRequests) -> Result<(), CommandError> {
    let child = command
        .spawn()
        .map_err(|error| format!("failed to run {LOADGEN}: {error}"))?;
    match start::wait_for(child, signals)?.success() {
        true => Ok(()),
        false => Err(CommandError::Failed(
            "failed to draw the results; see above".to_owned(),
        )),
    }
}

/// Draws the ratios of two servers; of one server the curves, if they are wanted.
fn draw(
    workspace: &Workspace,
    options: &BenchOptions,
    files: &[PathBuf],
    signals: &StopRequests,
) -> Result<(), CommandError> {
    let curves = workspace.root().join(CURVES);
    let mut command = loadgen(workspace);
    match options.versus.name() {
        Some(name) => {
            let folder = workspace.target().join("bench");
            let folder = if options.plots { &curves } else { &folder };
            plot_ratios(&mut command, name, files, &folder.join(RATIOS));
        }
        None if options.plots => {
            command.arg("plot").args(files).arg("--folder").arg(curves);
        }
        None => return Ok(()),
    }
    run_drawing(command, signals)
}
