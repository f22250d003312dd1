//! The scenarios: one file each, with its flags.

mod bulk;
mod burst;
mod call;
mod consume;
mod floor;
mod idle;
mod lanes;
mod lateness;
mod memory;
mod neighbours;
mod parked;
mod pending_jobs;
mod policy;
mod publish;
mod schedules;
mod touch;

use clap::Subcommand;

use crate::error::LoadgenError;
use crate::report::ScenarioReport;
use crate::run::ScenarioRun;
use crate::server::TargetServer;
use crate::wire::protocol::Wire;

/// The scenario to measure.
#[derive(Debug, Clone, Subcommand)]
pub enum Scenario {
    /// Publish throughput and latency, one job per request
    Publish(publish::PublishOptions),
    /// Consume and ack throughput and latency, one job per request, from queues that were filled before
    Consume(consume::ConsumeOptions),
    /// Throughput of publishes of 64 jobs, consumes of 64 (lmstfy: 100), and acks (native: of 64)
    Bulk(bulk::BulkOptions),
    /// CPU of publish, consume and ack, one job a request, relative to a server of hyper that does nothing, and to the
    /// scripts alone. Needs --redis, and --pid api=PID and redis=PID
    Floor(floor::FloorOptions),
    /// Time from due to received while very many other jobs are pending
    Lateness(lateness::LatenessOptions),
    /// Many jobs due in the same second: how fast they become ready, and the lateness of other queues
    Burst(burst::BurstOptions),
    /// Redis memory per delayed job, also with a key or an idempotency key. Needs --redis
    Memory(memory::MemoryOptions),
    /// Many waiting consumers: memory, Redis connections, CPU, wake-up latency
    Parked(parked::ParkedOptions),
    /// CPU and Redis commands of an idle server. Needs --redis
    Idle(idle::IdleOptions),
    /// A queue with lanes on several Redis nodes: CPU, and how evenly the nodes share it. Needs --admin,
    /// and --pid redis-N=PID for each node
    Lanes(lanes::LanesOptions),
    /// Latency of a queue beside a queue with large bodies, and beside a huge queue
    Neighbours(neighbours::NeighboursOptions),
    /// CPU of Redis while workers extend very many leases. Native wire
    Touch(touch::TouchOptions),
    /// CPU of publish, consume and ack in queues with priorities, groups, a rate or keys, relative to a queue without.
    /// Native wire; needs --pid api=PID and redis=PID
    Policy(policy::PolicyOptions),
    /// Time from a publish to the result of its job, which a worker returns. Native wire
    Call(call::CallOptions),
    /// Ticks of one bucket's schedules per second, and the lateness of another namespace's ticks meanwhile. Native
    /// wire; needs --admin
    Schedules(schedules::SchedulesOptions),
}

impl Scenario {
    /// The name of the scenario on the command line.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Publish(_) => "publish",
            Self::Consume(_) => "consume",
            Self::Bulk(_) => "bulk",
            Self::Floor(_) => "floor",
            Self::Lateness(_) => "lateness",
            Self::Burst(_) => "burst",
            Self::Memory(_) => "memory",
            Self::Parked(_) => "parked",
            Self::Idle(_) => "idle",
            Self::Lanes(_) => "lanes",
            Self::Neighbours(_) => "neighbours",
            Self::Touch(_) => "touch",
            Self::Policy(_) => "policy",
            Self::Call(_) => "call",
            Self::Schedules(_) => "schedules",
        }
    }

    /// The chosen wire. By default a run uses the wire of lmstfy, or the native wire if the scenario publishes with
    /// keys, or needs it otherwise.
    ///
    /// # Errors
    /// The scenario cannot use the chosen wire.
    pub(crate) fn wire(&self, chosen: Option<Wire>) -> Result<Wire, LoadgenError> {
        let (needs_native, prefers_native) = match self {
            Self::Touch(_) | Self::Policy(_) | Self::Call(_) | Self::Schedules(_) => (true, true),
            Self::Memory(options) => (options.has_keys(), options.has_keys()),
            Self::Publish(options) => (false, options.keyed),
            Self::Bulk(options) => (options.keyed, options.keyed),
            Self::Lanes(options) => (options.keyed, options.keyed),
            _ => (false, false),
        };
        match chosen {
            Some(Wire::Lmstfy) if needs_native => Err(LoadgenError::Usage(format!(
                "{} with these flags needs --wire native",
                self.name()
            ))),
            Some(chosen) => Ok(chosen),
            None if prefers_native => Ok(Wire::Native),
            None => Ok(Wire::Lmstfy),
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
            Self::Floor(options) => Box::pin(options.run(&mut run)).await?,
            Self::Lateness(options) => Box::pin(options.run(&mut run)).await?,
            Self::Burst(options) => Box::pin(options.run(&mut run)).await?,
            Self::Memory(options) => options.run(&mut run).await?,
            Self::Parked(options) => options.run(&mut run).await?,
            Self::Idle(options) => options.run(&mut run).await?,
            Self::Lanes(options) => Box::pin(options.run(&mut run)).await?,
            Self::Neighbours(options) => Box::pin(options.run(&mut run)).await?,
            Self::Touch(options) => Box::pin(options.run(&mut run)).await?,
            Self::Policy(options) => Box::pin(options.run(&mut run)).await?,
            Self::Call(options) => Box::pin(options.run(&mut run)).await?,
            Self::Schedules(options) => Box::pin(options.run(&mut run)).await?,
        }
        run.finish().await
    }
}
