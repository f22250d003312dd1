//! `cargo xtask bench`: the load generator against everything on this machine.

mod durability;
mod scenarios;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::SystemTime;

use serde_json::{Value, json};
use tidegate_local_redis::{RedisServer, ServerBinary, free_port};

use crate::dev::session::Session;
use crate::dev::signals::Signals;
use crate::dev::start::{self, API, PUMP, Programs};
use crate::dev::{self, Ending, cluster, leftovers};
use crate::workspace::Workspace;
use durability::Durability;
use scenarios::{SCENARIOS, Scenario};

const LOADGEN: &str = "tidegate-loadgen";
const PUMPS: u8 = 2;

/// The flags of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// What to measure; everything if none is named.
    #[arg(value_name = "SCENARIO", value_parser = scenarios::names())]
    scenarios: Vec<String>,
    /// Small numbers: some seconds for each scenario. For trying it out; such figures mean little.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    durability: Durability,
    /// Draw the curves into docs/benchmarks.
    #[arg(long)]
    plots: bool,
    /// Further flags for the scenario, as `tidegate-loadgen SCENARIO --help` lists them.
    #[arg(last = true, value_name = "FLAGS")]
    further: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> ExitCode {
    let measured = Signals::catch()
        .map_err(|error| Ending::Failed(format!("signals cannot be caught: {error}")))
        .and_then(|signals| measure(workspace, options, &signals));
    match measured {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Ending::Asked) => ExitCode::FAILURE,
        Err(Ending::Failed(reason)) => {
            eprintln!("\nerror: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all figures count.
fn measure(workspace: &Workspace, options: &Options, signals: &Signals) -> Result<bool, Ending> {
    let folder = workspace.target().join("bench");
    let _lock = leftovers::lock(&folder)?;
    leftovers::check(&folder)?;
    let binary = options.durability.obtain()?;
    start::build(workspace, &[API, PUMP, LOADGEN], true, signals)?;
    let is_wanted = |scenario: &&Scenario| {
        options.scenarios.is_empty() || options.scenarios.iter().any(|name| name == scenario.name)
    };
    let (mut reports, mut files) = (Vec::new(), Vec::new());
    for scenario in SCENARIOS.iter().filter(is_wanted) {
        let file = folder.join(format!("{}.json", scenario.name));
        let stack = Stack::start(workspace, options, &binary, &folder, Redis::One, signals)?;
        let versus = match scenario.versus_cluster {
            true => {
                let folder = folder.join("cluster");
                fs::create_dir_all(&folder)
                    .map_err(|error| format!("{}: {error}", folder.display()))?;
                let stack = Stack::start(
                    workspace,
                    options,
                    &binary,
                    &folder,
                    Redis::Cluster,
                    signals,
                );
                Some(stack?)
            }
            false => None,
        };
        stack.measure(versus.as_ref(), scenario, options, &file, signals)?;
        let outcome = read(&file)?;
        reports.extend(outcome["reports"].as_array().cloned().unwrap_or_default());
        print!("{}", table::comparisons(scenario.name, &outcome));
        files.push(file);
    }
    print!("{}", table::table(&reports));
    let written = write(&folder, &binary, &reports)?;
    println!("\nall reports: {}", workspace.shown(&written));
    if options.plots {
        plot(workspace, &files, signals)?;
    }
    let counts = |report: &Value| report["problems"].as_array().is_some_and(Vec::is_empty);
    Ok(reports.iter().all(counts))
}

/// What a stack stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redis {
    One,
    /// Three primaries.
    Cluster,
}

/// A Redis, its replicas if publishes wait for any, one API, two pumps. Dropping it ends them.
struct Stack {
    session: Session,
    options: dev::Options,
    /// What the load generator is told; a cluster is not asked for its memory.
    redis_url: Option<String>,
    programs: Programs,
    replicas: Vec<RedisServer>,
}

impl Stack {
    fn start(
        workspace: &Workspace,
        wanted: &Options,
        binary: &ServerBinary,
        folder: &Path,
        redis: Redis,
        signals: &Signals,
    ) -> Result<Self, Ending> {
        let port = || free_port().ok_or_else(|| "there is no free port".to_owned());
        let options = dev::Options {
            port: port()?,
            admin_port: port()?,
            redis: None,
            cluster: redis == Redis::Cluster,
            pumps: PUMPS,
            release: true,
        };
        let mut stack = Self {
            programs: Programs::of(workspace, &options, folder),
            redis_url: None,
            session: Session::default(),
            options,
            replicas: Vec::new(),
        };
        let Self {
            session,
            options,
            redis_url,
            programs,
            replicas,
        } = &mut stack;
        let (arguments, of_api) = match redis {
            Redis::One => {
                let redis = wanted.durability.server(binary)?;
                *replicas = wanted.durability.replicas(binary, &redis, signals)?;
                let url = redis_url.insert(redis.url()).clone();
                session.redis = Some(redis);
                let arguments = vec!["--redis".to_owned(), url];
                (arguments, wanted.durability.flags_of_api(folder)?.to_vec())
            }
            Redis::Cluster => {
                let cluster = session.cluster.insert(cluster::start(binary.clone(), 0)?);
                (cluster::arguments(cluster, folder)?, Vec::new())
            }
        };
        let of_api = [&arguments[..], &of_api].concat();
        start::start_api(programs, options, &of_api, session, signals)?;
        start::start_pumps(programs, options, &arguments, session, signals)?;
        Ok(stack)
    }

    fn measure(
        &self,
        versus: Option<&Self>,
        scenario: &Scenario,
        options: &Options,
        file: &Path,
        signals: &Signals,
    ) -> Result<(), Ending> {
        let _ = fs::remove_file(file);
        let mut command = Command::new(self.programs.path(LOADGEN));
        command.args(self.named(["--target", "--admin", "--redis", "--pid"]));
        if let Some(versus) = versus {
            command.args(versus.named(["--vs", "--vs-admin", "--vs-redis", "--vs-pid"]));
        }
        command
            .arg("--json")
            .arg(file)
            .arg(scenario.name)
            .args(scenario.flags(options.quick))
            .args(&options.further)
            .stdout(Stdio::null());
        let child = command
            .spawn()
            .map_err(|error| format!("{LOADGEN} cannot run: {error}"))?;
        start::wait_for(child, signals)?;
        // What it found out counts more than its exit code; without a report it has said why.
        match file.is_file() {
            true => Ok(()),
            false => Err(Ending::Failed(format!("{} gave no report", scenario.name))),
        }
    }

    /// The flags that name its parts: API, admin port, Redis, processes.
    fn named(&self, [target, admin, redis, pid]: [&str; 4]) -> Vec<String> {
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

    /// `name=pid` of every process.
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

fn read(file: &Path) -> Result<Value, Ending> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let outcome = serde_json::from_str(&text);
    outcome.map_err(|error| Ending::Failed(format!("{}: {error}", file.display())))
}

fn write(folder: &Path, binary: &ServerBinary, reports: &[Value]) -> Result<PathBuf, Ending> {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let path = folder.join(format!("{}.json", now.replace(':', "-")));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let all = json!({"time": now, "redis": binary.to_string(), "cores": cores, "reports": reports});
    let text = format!("{all:#}\n");
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

fn plot(workspace: &Workspace, files: &[PathBuf], signals: &Signals) -> Result<(), Ending> {
    let mut command = Command::new(workspace.target().join("release").join(LOADGEN));
    command
        .arg("plot")
        .args(files)
        .arg("--folder")
        .arg(workspace.root().join("docs/benchmarks"));
    let child = command
        .spawn()
        .map_err(|error| format!("{LOADGEN} cannot run: {error}"))?;
    match start::wait_for(child, signals)?.success() {
        true => Ok(()),
        false => Err(Ending::Failed(
            "the curves could not be drawn; see above".to_owned(),
        )),
    }
}
