//! The least and the largest value of every number and duration.
//!
//! Durations have an upper bound because they are added to the current time, which must not overflow. The bounds are
//! wide: they reject obvious mistakes only. `0` is accepted where it has a meaning.

use std::time::Duration;

use tidegate_core::limits::NAME_BYTES_MAX;
use tidegate_daemon::Bound;
use tidegate_daemon::traces::SAMPLE_ONE_IN_BOUND;
use tidegate_store::PUBLISH_JOBS_MAX;

const NONE: Duration = Duration::ZERO;
const MS: Duration = Duration::from_millis(1);
const TEN_MS: Duration = Duration::from_millis(10);
const TENTH: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

const U16: i64 = u16::MAX as i64;
const U32: i64 = u32::MAX as i64;

pub(super) const BOUNDS: [(&str, Bound); 43] = [
    SAMPLE_ONE_IN_BOUND,
    ("connect_patience", Bound::Duration(NONE, DAY)),
    ("threads", Bound::Number(1, 1024)),
    ("drain_timeout", Bound::Duration(NONE, HOUR)),
    // Load balancers need seconds. A longer value is probably in the wrong unit.
    ("drain_delay", Bound::Duration(NONE, HOUR)),
    ("connections.connections_max", Bound::Number(1, 1_000_000)),
    ("connections.header_timeout", Bound::Duration(TEN_MS, HOUR)),
    ("connections.idle_timeout", Bound::Duration(TEN_MS, DAY)),
    ("connections.write_timeout", Bound::Duration(TEN_MS, HOUR)),
    ("connections.header_bytes_max", Bound::Number(8192, 1 << 20)),
    ("requests.body_timeout", Bound::Duration(TEN_MS, HOUR)),
    (
        "requests.name_bytes_max",
        Bound::Number(1, NAME_BYTES_MAX as i64),
    ),
    ("requests.job_bytes_max", Bound::Number(1, 8 << 20)),
    ("requests.result_bytes_max", Bound::Number(1, 8 << 20)),
    ("requests.bulk_bytes_max", Bound::Number(1, 1 << 30)),
    (
        "requests.bulk_jobs_max",
        Bound::Number(1, PUBLISH_JOBS_MAX as i64),
    ),
    ("requests.consume_jobs_max", Bound::Number(1, 100)),
    ("requests.consume_queues_max", Bound::Number(1, 10_000)),
    ("requests.backlog_jobs_max", Bound::Number(1, 1_000_000)),
    ("requests.backlog_bytes_max", Bound::Number(1, 64 << 30)),
    (
        "requests.in_flight_bytes_max",
        Bound::Number(1 << 20, 64 << 30),
    ),
    ("requests.unread_bytes_max", Bound::Number(1, 64 << 30)),
    ("requests.timeout", Bound::Duration(TENTH, HOUR)),
    ("waiters.poll_interval", Bound::Duration(TENTH, HOUR)),
    ("waiters.wait_max", Bound::Duration(MS, MONTH)),
    ("waiters.in_process_max", Bound::Number(1, 1_000_000)),
    ("waiters.per_token_max", Bound::Number(1, 1_000_000)),
    ("waiters.seats_per_token_max", Bound::Number(1, 10_000_000)),
    ("metrics.queues_max", Bound::Number(1, 100_000)),
    ("metrics.refresh", Bound::Duration(NONE, HOUR)),
    ("job.ttl_seconds", Bound::Number(0, U32)),
    ("job.delay_seconds", Bound::Number(0, U32)),
    ("job.tries", Bound::Number(1, U16)),
    ("job.ttr_seconds", Bound::Number(0, U32)),
    ("job.timeout_seconds", Bound::Number(0, U32)),
    ("durability.timeout", Bound::Duration(TEN_MS, HOUR)),
    ("youzan.pop_wait", Bound::Duration(NONE, DAY)),
    ("namespace_limits.queues", Bound::Number(100, 10_000_000)),
    ("namespace_limits.policies", Bound::Number(1, 1_000_000)),
    ("namespace_limits.schedules", Bound::Number(1, 100_000)),
    ("namespace_limits.relays", Bound::Number(1, 10_000)),
    ("namespace_limits.api_keys", Bound::Number(1, 1_000_000)),
    ("youzan.connections_max", Bound::Number(1, 1_000_000)),
];
