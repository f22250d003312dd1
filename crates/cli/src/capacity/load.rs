//! The load that is planned for, as flags.

use clap::{Args, ValueEnum};

/// The flags of `capacity`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:
  tidegate capacity --jobs-per-second 20k --pending 50M --bytes 300

docs/capacity.md has the costs, where they were measured, and how to measure your own machines.")]
pub(crate) struct CapacityArguments {
    /// Jobs published, delivered and acknowledged in a second at the peak; k, M and G multiply by 1000 each, as in 20k.
    #[arg(long, value_name = "NUMBER", value_parser = counted::<10_000_000>)]
    pub(super) jobs_per_second: u64,
    /// The most jobs that are stored at a time, in any state.
    #[arg(long, value_name = "NUMBER", value_parser = counted::<1_000_000_000_000>)]
    pub(super) pending: u64,
    /// Bytes of a payload and its attributes; from 1 KiB on, after compression.
    #[arg(long, value_name = "NUMBER", default_value = "200", value_parser = counted::<16_000_000>)]
    pub(super) bytes: u64,
    /// Percent of the stored jobs whose payloads are in the cold tier: they are due later than cold_after.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub(super) cold: u64,
    /// How clients send requests.
    #[arg(long, value_enum, default_value_t = RequestSize::Single)]
    pub(super) requests: RequestSize,
    /// Consumers that wait for jobs at the same time.
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = counted::<1_000_000_000>)]
    pub(super) consumers: u64,
    /// The most memory that one Redis may use, maxmemory, in GiB.
    #[arg(long, value_name = "GIB", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(super) redis_gib: u64,
    /// Replicas of each Redis primary, with sentinels or in a cluster.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=5))]
    pub(super) replicas: u64,
    /// The part of a core that may be in use at the peak, in percent; the rest is for bursts and failovers.
    #[arg(long, value_name = "PERCENT", default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..=95))]
    pub(super) busy: u64,
}

/// How many jobs clients name in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RequestSize {
    /// One job in each request, as on the lmstfy wire; at least 64 connections
    Single,
    /// Some 64 jobs in each request, as the workers of the native API do
    Batch,
}

/// Reads a whole number up to `MAX`, perhaps with k, M or G behind it.
fn counted<const MAX: u64>(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.char_indices().next_back() {
        Some((at, 'k')) => (&text[..at], 1_000),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        Some((at, 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "expected a whole number, perhaps with k, M or G behind it, as in 20k")?;
    let value = number.checked_mul(factor).filter(|value| *value <= MAX);
    value.ok_or_else(|| format!("the largest is {MAX}"))
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn numbers_have_units_and_limits() {
        assert_eq!(counted::<100>("100"), Ok(100));
        assert_eq!(counted::<1_000_000_000_000>("20k"), Ok(20_000));
        assert_eq!(counted::<1_000_000_000_000>("3M"), Ok(3_000_000));
        assert_eq!(counted::<1_000_000_000_000>("10G"), Ok(10_000_000_000));
        for wrong in ["", "k", "-1", "1.5M", "1K", "12x", "1 k", "1é"] {
            assert!(counted::<100>(wrong).is_err(), "{wrong}");
        }
        assert_eq!(counted::<100>("101"), Err("the largest is 100".to_owned()));
        assert!(counted::<{ u64::MAX }>("18446744073709551615G").is_err());
    }
}
