//! What is measured: one file a scenario, with its flags.

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
mod pending;
mod publish;

use clap::Subcommand;

use crate::Error;
use crate::report::Report;
use crate::run::Run;
use crate::server::Server;

/// What to measure.
#[derive(Debug, Clone, Subcommand)]
pub enum Scenario {
    /// Publish, one job a request
    Publish(publish::Options),
    /// Consume and acknowledge, one job a request, from a queue that was filled before
    Consume(consume::Options),
    /// Publish in bulk, consume in bulk, acknowledge
    Bulk(bulk::Options),
    /// The same work by Tidegate's scripts straight at Redis, without HTTP: what servers could reach at best
    Ceiling(ceiling::Options),
    /// How late jobs arrive while very many others are pending
    Lateness(lateness::Options),
    /// Very many jobs due in the same second: how fast they become ready, and what others notice of it
    Burst(burst::Options),
    /// Redis memory of delayed jobs
    Memory(memory::Options),
    /// Very many waiting consumers: memory, connections, CPU, how fast they are woken
    Parked(parked::Options),
    /// What a server costs that has nothing to do
    Idle(idle::Options),
    /// What a queue costs whose lanes are on several nodes, and how evenly they share it
    Lanes(lanes::Options),
    /// What a queue notices of others: one that moves large bodies, one that is huge
    Neighbours(neighbours::Options),
    /// Whether publish, consume and acknowledge cost more when more jobs are pending
    Growth(growth::Options),
}

impl Scenario {
    /// Its name, as on the command line.
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

    /// Runs it once against a server.
    pub(crate) async fn run(&self, server: &Server, is_quiet: bool) -> Result<Report, Error> {
        let mut run = Run::new(self.name(), server, is_quiet);
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
