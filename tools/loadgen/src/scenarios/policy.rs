use clap::Args;
use serde_json::json;

use crate::error::LoadgenError;
use crate::http::HttpConnection;
use crate::report::Goal;
use crate::run::ScenarioRun;
use crate::spread::Spread;
use crate::verb_load::{VERBS, VerbLoad};
use crate::wire::native;
use crate::wire::publish_request::JobOption;

/// The flags of `policy`.
#[derive(Debug, Clone, Args)]
pub struct PolicyOptions {
    /// Connections, each with one request at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Jobs of each queue in each turn
    #[arg(long, default_value_t = 50_000)]
    jobs: u64,
    /// Size of each body in bytes, at least 30
    #[arg(long, default_value_t = 100)]
    body_bytes: usize,
    /// Groups of the queue with groups
    #[arg(long, default_value_t = 10_000)]
    groups: u64,
    /// Turns: a queue without a policy, and one of each kind
    #[arg(long, default_value_t = 7)]
    turns: usize,
}

/// A kind of queue.
struct QueueKind {
    name: &'static str,
    option: JobOption,
    policy: Option<serde_json::Value>,
    /// CPU of API and Redis for publish, consume and ack together, relative to a queue without a policy.
    goal: Option<Goal>,
}

/// CPU seconds by verb, of the API and of Redis.
type VerbCpu = [[f64; 2]; 3];

const PROCESSES: [&str; 2] = ["api", "redis"];

impl PolicyOptions {
    fn kinds(&self) -> [QueueKind; 5] {
        let kind = |name, option, goal| QueueKind {
            name,
            option,
            policy: None,
            goal,
        };
        let at_most = |ratio| Some(Goal::AtMost(ratio));
        [
            kind("plain", JobOption::None, None),
            kind("priorities", JobOption::Priority, at_most(1.05)),
            kind("groups", JobOption::Group(self.groups.max(1)), at_most(1.3)),
            QueueKind {
                // Never held back: only the work of taking units is measured.
                policy: Some(json!({"rate": {"jobs": 1_000_000, "per": "1s"}})),
                ..kind("rate", JobOption::None, at_most(1.15))
            },
            kind("keys", JobOption::Key, None),
        ]
    }

    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = format!("closed loop, {} connections", self.connections);
        run.report.parameter("jobs", self.jobs);
        run.report.parameter("body bytes", self.body_bytes);
        run.report.parameter("groups", self.groups);
        run.report.parameter("turns", self.turns);
        for name in PROCESSES {
            if run.server.process(name).is_none() {
                let flag =
                    format!("policy measures processes of this machine: give --pid {name}=PID");
                return Err(LoadgenError::Usage(flag));
            }
        }
        let kinds = self.kinds();
        let mut turns = Vec::new();
        for number in 1..=self.turns {
            let bar = run.progress(&format!("turn {number} of {}", self.turns), 0);
            let mut turn = vec![VerbCpu::default(); kinds.len()];
            // Every other turn is backwards, so that a machine which becomes slower is slower for all.
            for step in 0..kinds.len() {
                let place = if number % 2 == 0 {
                    kinds.len() - 1 - step
                } else {
                    step
                };
                turn[place] = self.measure(run, &kinds[place], number).await?;
            }
            bar.finish_and_clear();
            turns.push(turn);
        }
        report(run, &kinds, &turns);
        Ok(())
    }

    async fn measure(
        &self,
        run: &ScenarioRun<'_>,
        kind: &QueueKind,
        turn: usize,
    ) -> Result<VerbCpu, LoadgenError> {
        let queue = run.queue(&format!("{}{turn}", kind.name));
        if let Some(policy) = &kind.policy {
            set_policy(run, &queue, policy).await?;
        }
        let load = VerbLoad {
            queue: &queue,
            jobs: self.jobs,
            connections: self.connections,
            body_bytes: self.body_bytes,
            option: kind.option,
        };
        let usages = load.run(run).await?;
        if kind.policy.is_some() {
            set_policy(run, &queue, &json!({})).await?;
        }
        Ok(usages.map(|usage| PROCESSES.map(|name| usage.of_process(name).unwrap_or(f64::NAN))))
    }
}

async fn set_policy(
    run: &ScenarioRun<'_>,
    queue: &str,
    policy: &serde_json::Value,
) -> Result<(), LoadgenError> {
    let mut connection = HttpConnection::open(run.server.address, 0).await?;
    let mut request = Vec::new();
    let rest = format_args!("queues/{queue}/policy");
    let body = policy.to_string();
    native::write_body(&run.requests, &mut request, "PUT", rest, body.as_bytes());
    let answer = connection.exchange(&request).await?;
    match answer.status {
        200..300 => Ok(()),
        status => Err(LoadgenError::unexpected(
            "setting a policy",
            status,
            answer.body,
        )),
    }
}

fn report(run: &mut ScenarioRun<'_>, kinds: &[QueueKind], turns: &[Vec<VerbCpu>]) {
    let total = |cpu: &VerbCpu| cpu.iter().flatten().sum::<f64>();
    for (place, kind) in kinds.iter().enumerate().skip(1) {
        let ratios = |cpu: &dyn Fn(&VerbCpu) -> f64| {
            let of_turns = turns.iter().map(|turn| cpu(&turn[place]) / cpu(&turn[0]));
            Spread::of(of_turns)
        };
        let name = format!("{} / plain", kind.name);
        if let Some(ratio) = ratios(&total) {
            run.report.remarks.push(format!("{name}: {ratio}"));
            match kind.goal {
                Some(goal) => run.report.figure_with_goal(name, ratio.median, "", goal),
                None => run.report.figure(name, ratio.median, ""),
            }
        }
        for (verb, verb_name) in VERBS.iter().enumerate() {
            for (process, process_name) in PROCESSES.iter().enumerate() {
                if let Some(ratio) = ratios(&|cpu| cpu[verb][process]) {
                    let remark = format!("{}, {verb_name}, {process_name}: {ratio}", kind.name);
                    run.report.remarks.push(remark);
                }
            }
        }
    }
    let remark = "ratios of CPU for publish, consume and ack of a job, each one request; median of the turns (least to most)";
    run.report.remarks.push(remark.to_owned());
}
