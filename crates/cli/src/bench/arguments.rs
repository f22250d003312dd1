//! The arguments of `tidegate bench`.

use std::time::Duration;

use clap::Args;
use tidegate::DurationMs;
use tidegate::api::values::MaxJobs;

const TIME_MAX: Duration = Duration::from_secs(600);

#[derive(Debug, Args)]
#[command(
    after_help = "Half of the connections publish, the other half reserve and acknowledge, each one request after the other. The queue has a
random name and is deleted at the end. This loads the server: other users of it are slower meanwhile. Needs all four scopes.

Latencies: publish and ack are those of requests; delivery is the time from the begin of a publish to the answer of the reserve
that delivers the job.

Example:
  tidegate bench --connections 32 --time 10s --batch 10"
)]
pub(crate) struct BenchArguments {
    /// How many connections are used.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=512))]
    pub(super) connections: u16,
    /// For how long jobs are published: up to 10 minutes.
    #[arg(long, default_value = "10s", value_parser = bench_time)]
    pub(super) time: DurationMs,
    /// The size of a payload in bytes.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(8..=65_536))]
    pub(super) payload_bytes: u32,
    /// How many jobs a request publishes, and reserves and acknowledges at most.
    #[arg(long, default_value = "1", value_parser = batch)]
    pub(super) batch: MaxJobs,
    /// Uses this queue, which must have no jobs. Its policy applies, and it is not deleted if it has one.
    #[arg(long)]
    pub(super) queue: Option<String>,
}

fn bench_time(text: &str) -> Result<DurationMs, String> {
    let time: DurationMs = text.parse().map_err(|error| format!("{error}"))?;
    match (1..=TIME_MAX.as_millis()).contains(&u128::from(time.as_ms())) {
        true => Ok(time),
        false => Err("the time must be from 1ms to 10m".to_owned()),
    }
}

fn batch(text: &str) -> Result<MaxJobs, String> {
    let number: u64 = text.parse().map_err(|_| "write a whole number")?;
    MaxJobs::try_from(number).map_err(|invalid| invalid.detail)
}
