//! The measured costs of a job: docs/capacity.md has the commands. Cores of 2.5 GHz, Redis 7.0.

use super::load::RequestSize;

/// CPU of a delayed job of 100 bytes, in µs: published, moved, consumed and acknowledged, one job a request, with 64
/// consumers. Calls carry more jobs at higher rates, so a job costs less.
#[derive(Debug, Clone, Copy)]
struct MeasuredJob {
    /// Jobs in a second on one Redis.
    rate: f64,
    redis_us: f64,
    api_us: f64,
    pump_us: f64,
}

/// Measured before the API had one thread; since then it takes 0.6 to 0.7 of that, and Redis 0.75 to 0.85.
/// `tidegate-loadgen lateness --pending 1000 --seconds 6 --rates 1000,5000,10000,15000`.
const SINGLE: [MeasuredJob; 4] = [
    MeasuredJob::new(1_000.0, 160.0, 161.0, 57.0),
    MeasuredJob::new(5_000.0, 63.8, 72.4, 16.2),
    MeasuredJob::new(10_000.0, 40.2, 54.5, 6.8),
    MeasuredJob::new(15_000.0, 30.6, 41.4, 4.0),
];
/// With 64 jobs a request: `tidegate-loadgen --wire native bulk`, and 5.3 µs of Redis to move a delayed job: the
/// difference between `lateness` at 15 000/s and `lanes` with one lane, which has no delays.
const BATCH: MeasuredJob = MeasuredJob::new(15_000.0, 13.9 + 5.3, 7.9, 4.0);
/// Bytes of a body in these measurements.
const MEASURED_BYTES: f64 = 100.0;
/// `tidegate-loadgen lanes --body-bytes`, 900 and 20 000 against 100, in µs for each byte more. Of 1 MiB it is less,
/// since such bodies are transferred outside of scripts.
const REDIS_US_PER_BYTE_SMALL: f64 = 0.013;
const REDIS_US_PER_BYTE: f64 = 0.0066;
const SMALL_BYTES: f64 = 1_000.0;
const API_US_PER_BYTE: f64 = 0.0066;
/// `INFO` before and after these runs, for a job without its body; the body crosses the network twice.
const NETWORK_BYTES: f64 = 311.0;

/// Memory of Redis for a job of 40, 100 and 900 bytes over a day to a year is 99, 155 to 162, and 1030 bytes: `cargo
/// xtask bench memory`. This is at most 8 % more.
pub(super) const fn job_bytes(body: u64) -> u64 {
    59 + body + body * 8 / 100
}

/// Memory of Redis for a job whose payload is in the cold tier, and the bytes of its entry there beside the payload: `cargo
/// xtask bench memory-cold`.
pub(super) const COLD_JOB_BYTES: u64 = 75;
pub(super) const COLD_ENTRY_BYTES: u64 = 36;

/// A timer that is due within twice `slot_ms` takes that much more (docs/operating.md).
pub(super) const NEAR_TIMER_BYTES: f64 = 100.0;
pub(super) const NEAR_SECONDS: u64 = 128;
/// Part of `maxmemory` that may be full at the peak: the alert of deploy/prometheus is at 80 %.
pub(super) const FILL_MAX: f64 = 0.8;
/// The machine of a Redis: its `maxmemory`, fragmentation (4 to 6 % measured), and pages that exist twice while the
/// append-only file is rewritten. These can be up to all pages if nearly all jobs change meanwhile.
pub(super) const MACHINE_FACTOR: f64 = 1.5;
/// The append-only file has 147 bytes for a job of 155 bytes after a rewrite and grows to twice that. The old files
/// stay until the new file is written.
pub(super) const DISK_FACTOR: f64 = 3.0;

/// Lanes: docs/benchmarks.md, `lanes`.
pub(super) const LANES_FACTOR: f64 = 1.2;
pub(super) const LANES_MAX: u64 = 64;
/// docs/operating.md, Buckets.
pub(super) const BUCKETS_PER_PRIMARY: u64 = 20;
pub(super) const BUCKETS_DEFAULT: u64 = 256;
pub(super) const BUCKETS_MAX: u64 = 1 << 16;
/// A cluster needs three primaries to choose a new one.
pub(super) const PRIMARIES_MIN: u64 = 3;

/// `connections_max` of the settings.
pub(super) const API_CONSUMERS_MAX: u64 = 50_000;
/// docs/benchmarks.md, `parked`.
pub(super) const CONSUMER_BYTES: f64 = 8.0 * 1024.0;
const MIB: f64 = 1024.0 * 1024.0;
/// The memory that the defaults of config/api.toml let an API with one pool buffer: `in_flight_bytes_max` twice,
/// `unread_bytes_max` and `backlog_bytes_max` (docs/operating.md, Sizing).
const API_BUFFERS_BYTES: f64 = 1024.0 * MIB;
/// The caches of tokens, of limits and of API keys, each of which is bounded to 64 MiB.
const API_CACHES_BYTES: f64 = 3.0 * 64.0 * MIB;
/// The memory of an API beside its consumers.
pub(super) const API_BUFFERS_AND_CACHES_BYTES: f64 = API_BUFFERS_BYTES + API_CACHES_BYTES;
/// The memory of an idle pump is below this.
pub(super) const PUMP_BYTES: f64 = 64.0 * MIB;

/// CPU of one job through its whole life, in µs, and its bytes on the network.
#[derive(Debug, Clone, Copy)]
pub(super) struct CapacityCosts {
    pub(super) redis_us: f64,
    pub(super) api_us: f64,
    pub(super) pump_us: f64,
    pub(super) network_bytes: f64,
}

impl MeasuredJob {
    const fn new(rate: f64, redis_us: f64, api_us: f64, pump_us: f64) -> Self {
        Self {
            rate,
            redis_us,
            api_us,
            pump_us,
        }
    }
}

impl CapacityCosts {
    /// The costs of a job with `bytes` if one Redis has `rate` jobs a second.
    pub(super) fn of(requests: RequestSize, bytes: u64, rate: f64) -> Self {
        let job = match requests {
            RequestSize::Single => single(rate),
            RequestSize::Batch => BATCH,
        };
        let bytes = bytes as f64;
        let more = (bytes - MEASURED_BYTES).max(0.0);
        let small = more.min(SMALL_BYTES - MEASURED_BYTES);
        Self {
            redis_us: job.redis_us
                + small * REDIS_US_PER_BYTE_SMALL
                + (more - small) * REDIS_US_PER_BYTE,
            api_us: job.api_us + more * API_US_PER_BYTE,
            pump_us: job.pump_us,
            network_bytes: NETWORK_BYTES + 2.0 * bytes,
        }
    }
}

fn single(rate: f64) -> MeasuredJob {
    MeasuredJob::new(
        rate,
        single_us(rate, |it| it.redis_us),
        single_us(rate, |it| it.api_us),
        single_us(rate, |it| it.pump_us),
    )
}

/// CPU of a job at this rate, in µs: beyond all measured rates, the CPU at the nearest one.
///
/// Between two of them the CPU in use is linear. If the cost of a job were, it would fall faster than the rate rises,
/// and more jobs would use less CPU. Where less was measured at a higher rate, the CPU in use stays level, for the same
/// reason.
fn single_us(rate: f64, us: impl Fn(&MeasuredJob) -> f64) -> f64 {
    let [first, .., last] = &SINGLE;
    if rate <= first.rate {
        return us(first);
    }
    let (mut low_rate, mut low_used) = (first.rate, first.rate * us(first));
    for high in &SINGLE[1..] {
        let used = low_used.max(high.rate * us(high));
        if rate <= high.rate {
            let part = (rate - low_rate) / (high.rate - low_rate);
            return (low_used + (used - low_used) * part) / rate;
        }
        (low_rate, low_used) = (high.rate, used);
    }
    us(last).max(low_used / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-9, "{one} {other}");
    }

    #[test]
    fn measured_rates_cost_what_was_measured() {
        for measured in SINGLE {
            let costs = CapacityCosts::of(RequestSize::Single, 100, measured.rate);
            assert_near(costs.redis_us, measured.redis_us);
            assert_near(costs.api_us, measured.api_us);
        }
        let costs = |rate| CapacityCosts::of(RequestSize::Single, 100, rate).redis_us;
        assert_near(costs(0.0), 160.0);
        // Half-way between 0.319 and 0.402 cores.
        assert_near(costs(7_500.0) * 7_500.0, 360_500.0);
        assert_near(costs(1e9), 30.6);
    }

    /// The pump used 0.081 cores at 5000/s, and less at 10 000/s and 15 000/s.
    #[test]
    fn cpu_stays_level_where_less_was_measured_at_a_higher_rate() {
        let used = |rate| CapacityCosts::of(RequestSize::Single, 100, rate).pump_us * rate;
        for (rate, expected) in [
            (1e3, 57e3),
            (3e3, 69e3),
            (5e3, 81e3),
            (7e3, 81e3),
            (10e3, 81e3),
            (15e3, 81e3),
            (20e3, 81e3),
            (30e3, 120e3),
        ] {
            assert_near(used(rate), expected);
        }
    }

    /// The value of a key in the defaults of the API.
    fn default_of_the_api(key: &str) -> f64 {
        let settings = include_str!("../../../../config/api.toml");
        let mut values = settings
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        let row = values.next().expect("the key has a default");
        let (value, _range) = row.split_once("  # ").expect("the key has a range");
        value.parse().expect("the default is a number")
    }

    #[test]
    fn the_memory_of_an_api_follows_from_its_defaults() {
        let buffers = 2.0 * default_of_the_api("in_flight_bytes_max")
            + default_of_the_api("unread_bytes_max")
            + default_of_the_api("backlog_bytes_max");
        // The bound of the caches is no setting.
        let cache = include_str!("../../../engine/src/access/tokens/memory.rs");
        assert!(cache.contains("const BYTES_MAX: u64 = 64 << 20;"));
        let caches = 3.0 * f64::from(64 << 20);
        assert_near(API_BUFFERS_AND_CACHES_BYTES, buffers + caches);
    }

    #[test]
    fn measured_bodies_cost_what_was_measured() {
        for (bytes, measured) in [(40, 99.0), (100, 155.0), (100, 162.0), (900, 1030.0)] {
            let ratio = job_bytes(bytes) as f64 / measured;
            assert!((0.99..=1.09).contains(&ratio), "{bytes}: {ratio}");
        }
        // CPU of a body of 20 000 bytes against one of 100, measured: Redis 131 µs, API 132 µs.
        let [small, large] =
            [100, 20_000].map(|it| CapacityCosts::of(RequestSize::Single, it, 15e3));
        let (redis, api) = (large.redis_us - small.redis_us, large.api_us - small.api_us);
        assert!((redis / 131.0 - 1.0).abs() < 0.1, "{redis}");
        assert!((api / 132.0 - 1.0).abs() < 0.1, "{api}");
    }
}
