use std::cell::Cell;

use clap::Args;
use futures_util::future::try_join_all;
use tidegate_store::Store;

use crate::clock::now_us;
use crate::cpu::CpuUsage;
use crate::direct_calls::{DirectCalls, connect};
use crate::error::LoadgenError;
use crate::floor_server::FloorServer;
use crate::http::HttpConnection;
use crate::report::Goal;
use crate::run::ScenarioRun;
use crate::spread::Spread;
use crate::verb_load::{VERBS, VerbLoad, take_one};
use crate::wire::ack_requests::AckRequests;
use crate::wire::publish_request::{JobOption, PublishRequest};

/// CPU of the API for a request, relative to the floor.
const API_GOAL: Goal = Goal::AtMost(2.2);
/// CPU of Redis for a publish, in µs.
const REDIS_PUBLISH_GOAL: Goal = Goal::AtMost(6.0);
/// CPU of Redis for a consume and its ack, in µs.
const REDIS_CONSUME_GOAL: Goal = Goal::AtMost(16.0);
/// Jobs of a call of the scripts alone, and such calls in flight.
const CALL_JOBS: usize = 64;
const CALLS_IN_FLIGHT: usize = 4;

/// The flags of `floor`.
#[derive(Debug, Clone, Args)]
pub struct FloorOptions {
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Requests of each kind in each turn
    #[arg(long, default_value_t = 100_000)]
    jobs: u64,
    /// Size of each body in bytes, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
    /// Turns: floor, server, scripts, floor, server, scripts, …
    #[arg(long, default_value_t = 5)]
    turns: usize,
}

/// A request and its answer, head and body.
struct RecordedExchange {
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// CPU of one turn in µs a job, by verb.
#[derive(Default)]
struct Turn {
    floor: [f64; 3],
    api: [f64; 3],
    redis: [f64; 3],
    scripts: [f64; 3],
}

impl FloorOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = format!("closed loop, {} connections", self.connections);
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("body bytes", self.body_bytes);
        run.report.parameter("turns", self.turns);
        for name in ["api", "redis"] {
            if run.server.process(name).is_none() {
                let flag =
                    format!("floor measures processes of this machine: give --pid {name}=PID");
                return Err(LoadgenError::Usage(flag));
            }
        }
        let store = connect(run).await?;
        let recorded = record(run, self.body_bytes).await?;
        let mut turns = Vec::new();
        for number in 1..=self.turns {
            let mut turn = Turn::default();
            let bar = run.progress(&format!("turn {number} of {}", self.turns), 0);
            for (verb, exchange) in recorded.iter().enumerate() {
                turn.floor[verb] = self.load_floor(exchange).await?;
            }
            let queue = run.queue(&format!("server{number}"));
            self.load_server(run, &queue, &mut turn).await?;
            let queue = run.queue(&format!("scripts{number}"));
            self.load_scripts(run, &store, &queue, &mut turn).await?;
            bar.finish_and_clear();
            turns.push(turn);
        }
        report(run, &turns);
        Ok(())
    }

    /// Sends one request again and again to a server that is the floor. Returns its CPU in µs a request.
    async fn load_floor(&self, exchange: &RecordedExchange) -> Result<f64, LoadgenError> {
        let server = FloorServer::start(&exchange.answer)?;
        let left = Cell::new(self.jobs);
        let work = (0..self.connections).map(|number| {
            let (left, address) = (&left, server.address);
            async move {
                let mut connection = HttpConnection::open(address, number).await?;
                while take_one(left) {
                    connection.exchange(&exchange.request).await?;
                }
                Ok::<_, LoadgenError>(())
            }
        });
        try_join_all(work).await?;
        Ok(server.cpu_seconds()? / self.jobs as f64 * 1e6)
    }

    /// Publishes, consumes and acknowledges through the server.
    async fn load_server(
        &self,
        run: &ScenarioRun<'_>,
        queue: &str,
        turn: &mut Turn,
    ) -> Result<(), LoadgenError> {
        let load = VerbLoad {
            queue,
            jobs: self.jobs,
            connections: self.connections,
            body_bytes: self.body_bytes,
            option: JobOption::None,
        };
        for (verb, usage) in load.run(run).await?.iter().enumerate() {
            self.note(turn, verb, usage);
        }
        Ok(())
    }

    fn note(&self, turn: &mut Turn, verb: usize, usage: &CpuUsage) {
        let a_job = |name| usage.of_process(name).unwrap_or(f64::NAN) / self.jobs as f64 * 1e6;
        turn.api[verb] = a_job("api");
        turn.redis[verb] = a_job("redis");
    }

    /// Publishes, reserves and acknowledges without the server, with as many jobs in a call as it combines at most.
    async fn load_scripts(
        &self,
        run: &ScenarioRun<'_>,
        store: &Store,
        queue: &str,
        turn: &mut Turn,
    ) -> Result<(), LoadgenError> {
        let calls = DirectCalls::new(run, store, queue, self.jobs, self.body_bytes)?;
        for (verb, cpu) in turn.scripts.iter_mut().enumerate() {
            let meter = run.meter()?;
            let work = (0..CALLS_IN_FLIGHT).map(|_| async {
                loop {
                    let done = match VERBS[verb] {
                        "publish" => calls.publish(CALL_JOBS as u64).await?,
                        "consume" => calls.reserve(CALL_JOBS, 1).await?,
                        _ => calls.ack(CALL_JOBS).await?,
                    };
                    if done == 0 {
                        return Ok::<_, LoadgenError>(());
                    }
                }
            });
            try_join_all(work).await?;
            let redis = meter.read()?.of_process("redis").unwrap_or(f64::NAN);
            *cpu = redis / self.jobs as f64 * 1e6;
        }
        Ok(())
    }
}

/// Publishes, consumes and acknowledges one job, and records the requests and answers.
async fn record(
    run: &ScenarioRun<'_>,
    body_bytes: usize,
) -> Result<[RecordedExchange; 3], LoadgenError> {
    let (queue, wire) = (run.queue("recorded"), run.requests.wire);
    let mut connection = HttpConnection::open(run.server.address, 0).await?;
    let mut request = PublishRequest::new(run.requests.clone(), body_bytes);
    let label = run.jobs.borrow_mut().next_label(0);
    let request = request.one(&queue, label).to_vec();
    let answer = connection.exchange(&request).await?;
    wire.published(answer.body)?;
    let published = RecordedExchange::new(request, &connection);
    run.jobs.borrow_mut().record_published(1);

    let request = run.requests.consume(&queue, 1, 0);
    let answer = connection.exchange(&request).await?;
    let mut acks = AckRequests::new(run.requests.clone(), &queue);
    wire.consumed(answer.body, now_us(), |job, handle| {
        let mut jobs = run.jobs.borrow_mut();
        match job {
            Some(job) => jobs.record_delivered(&job),
            None => jobs.record_foreign(),
        }
        acks.add(handle);
    })?;
    acks.end_answer();
    let consumed = RecordedExchange::new(request, &connection);

    let request = acks.into_bytes();
    connection.exchange(&request).await?;
    let acked = RecordedExchange::new(request, &connection);
    Ok([published, consumed, acked])
}

impl RecordedExchange {
    /// A request, and the last answer of its connection.
    fn new(request: Vec<u8>, connection: &HttpConnection) -> Self {
        let answer = connection.last_answer().to_vec();
        Self { request, answer }
    }
}

fn report(run: &mut ScenarioRun<'_>, turns: &[Turn]) {
    for (verb, name) in VERBS.into_iter().enumerate() {
        let mut add = |what: &str, unit, goal, value: fn(&Turn, usize) -> f64| {
            let values = turns.iter().map(|turn| value(turn, verb));
            add_figure(run, format!("{name}: {what}"), unit, goal, values);
        };
        add("floor", "µs", None, |turn, verb| turn.floor[verb]);
        add("API", "µs", None, |turn, verb| turn.api[verb]);
        add("API / floor", "", Some(API_GOAL), |turn, verb| {
            turn.api[verb] / turn.floor[verb]
        });
        let goal = (verb == 0).then_some(REDIS_PUBLISH_GOAL);
        add("Redis", "µs", goal, |turn, verb| turn.redis[verb]);
        add("scripts alone", "µs", None, |turn, verb| {
            turn.scripts[verb]
        });
        add("Redis / scripts alone", "", None, |turn, verb| {
            turn.redis[verb] / turn.scripts[verb]
        });
    }
    let pairs = turns.iter().map(|turn| turn.redis[1] + turn.redis[2]);
    let (name, goal) = ("consume + ack: Redis".to_owned(), REDIS_CONSUME_GOAL);
    add_figure(run, name, "µs", Some(goal), pairs);
    let remark =
        "µs of CPU for a job, median of the turns; of the scripts alone with 64 jobs a call";
    run.report.remarks.push(remark.to_owned());
}

/// Adds the median of the turns, and a remark with the spread.
fn add_figure(
    run: &mut ScenarioRun<'_>,
    name: String,
    unit: &str,
    goal: Option<Goal>,
    values: impl Iterator<Item = f64>,
) {
    let Some(spread) = Spread::of(values) else {
        return;
    };
    run.report.remarks.push(format!("{name}: {spread} {unit}"));
    match goal {
        Some(goal) => run.report.figure_with_goal(name, spread.median, unit, goal),
        None => run.report.figure(name, spread.median, unit),
    }
}
