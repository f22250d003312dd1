//! The scenarios: one file each, with its flags.

mod bulk;
mod burst;
mod ceiling;
mod consume;
mod growth;
mod idle;
mod lanes;
mod lateness;
mod memory;
mod neighbours;
mod parked;
mod pending_jobs;
mod publish;

use clap::Subcommand;

use crate::error::LoadgenError;
use crate::report::ScenarioReport;
use crate::run::ScenarioRun;
use crate::server::TargetServer;

/// The scenario to measure.
#[derive(Debug, Clone, Subcommand)]
pub enum Scenario {
    /// Publish throughput and latency, one job per request
    Publish(publish::PublishOptions),
    /// Consume and ack throughput and latency, one job per request, from queues that were filled before
    Consume(consume::ConsumeOptions),
    /// Throughput of bulk publishes, bulk consumes and acks
    Bulk(bulk::BulkOptions),
    /// Throughput of Tidegate's scripts on Redis without HTTP: the upper bound for a server. Needs --redis
    Ceiling(ceiling::CeilingOptions),
    /// Time from due to received while very many other jobs are pending
    Lateness(lateness::LatenessOptions),
    /// Many jobs due in the same second: how fast they become ready, and the lateness of other queues
    Burst(burst::BurstOptions),
    /// Redis memory per delayed job. Needs --redis
    Memory(memory::MemoryOptions),
    /// Many waiting consumers: memory, Redis connections, CPU, wake-up latency
    Parked(parked::ParkedOptions),
    /// CPU and Redis commands of an idle server. Needs --redis
    Idle(idle::IdleOptions),
    /// A queue with lanes on several Redis nodes: CPU, and how evenly the nodes share it. Needs --admin,
    /// and --pid redis-N=PID for each node
    Lanes(lanes::LanesOptions),
    /// Latency of a queue beside one with large bodies, and beside a huge one
    Neighbours(neighbours::NeighboursOptions),
    /// CPU per job of publish, consume and ack as more jobs are pending
    Growth(growth::GrowthOptions),
}

impl Scenario {
    /// The name of the scenario on the command line.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Publish(_) => "publish",
            Self::Consume(_) => "consume",
            Self::Bulk(_) => "bulk",
            Self::Ceiling(_) => "ceiling",
            Self::Lateness(_) => "lateness",
            Self::Burst(_) => "burst",
            Self::Memory(_) => "memory",
            Self::Parked(_) => "parked",
            Self::Idle(_) => "idle",
            Self::Lanes(_) => "lanes",
            Self::Neighbours(_) => "neighbours",
            Self::Growth(_) => "growth",
        }
    }

    /// Runs the scenario once against a server.
    pub(crate) async fn run(
        &self,
        server: &TargetServer,
        is_quiet: bool,
    ) -> Result<ScenarioReport, LoadgenError> {
        let mut run = ScenarioRun::new(self.name(), server, is_quiet);
        match self {
            Self::Publish(options) => options.run(&mut run).await?,
            Self::Consume(options) => options.run(&mut run).await?,
            Self::Bulk(options) => options.run(&mut run).await?,
            Self::Ceiling(options) => options.run(&mut run).await?,
            Self::Lateness(options) => Box::pin(options.run(&mut run)).await?,
            Self::Burst(options) => Box::pin(options.run(&mut run)).await?,
            Self::Memory(options) => options.run(&mut run).await?,
            Self::Parked(options) => options.run(&mut run).await?,
            Self::Idle(options) => options.run(&mut run).await?,
            Self::Lanes(options) => Box::pin(options.run(&mut run)).await?,
            Self::Neighbours(options) => Box::pin(options.run(&mut run)).await?,
            Self::Growth(options) => options.run(&mut run).await?,
        }
        run.finish().await
    }
}
