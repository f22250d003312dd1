//! The limits of the API: each is here once, with its unit in its name.
//!
//! Most are fixed. The limits in [`ConfigurableLimits`] are defaults that a server may change.

/// The largest duration, and the last instant since 1970 (9999-12-31T23:59:59.999Z), in ms.
pub const TIME_MS_MAX: u64 = 253_402_300_799_999;
/// The last instant since 1970 at which a job can be due (2527-06-23T06:20:44.416Z), and the longest delay,
/// `start_within` and time to live, in ms. The current time plus this fits into the 48 bits that a record has for an
/// instant.
pub const DURATION_MS_MAX: u64 = 1 << 44;
/// The least integer that is an instant in ms (1973-03-03). Lower ones, except 0, are probably seconds.
pub const TIMESTAMP_MS_MIN: u64 = 100_000_000_000;
/// The most bytes of a text that is a duration or an instant.
pub const TIME_TEXT_BYTES_MAX: usize = 64;

/// The most bytes of the name of a namespace or queue.
pub const NAME_BYTES_MAX: usize = 255;
/// The most bytes of the key of a job.
pub const KEY_BYTES_MAX: usize = 255;
/// The most bytes of the group of a job.
pub const GROUP_BYTES_MAX: usize = 128;
/// The number of bytes of the id of a job.
pub const JOB_ID_BYTES: usize = 26;
/// The most bytes of a lease.
pub const LEASE_BYTES_MAX: usize = 320;
/// The most bytes of an `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// The most bytes of a content type.
pub const CONTENT_TYPE_BYTES_MAX: usize = 255;
/// The most bytes of the cursor of a list.
pub const CURSOR_BYTES_MAX: usize = 512;

/// The most bytes of a text that an error of a listed job contains.
pub const FILTER_BYTES_MAX: usize = 255;

/// The most attributes of a job.
pub const ATTRIBUTES_MAX: usize = 32;
/// The most attributes of the job of a schedule, which adds two to each job.
pub const SCHEDULE_ATTRIBUTES_MAX: usize = ATTRIBUTES_MAX - 2;
/// The most bytes of all attributes of a job as headers, percent-encoded. Common servers refuse more: Node.js takes 16
/// KiB of all headers, Apache 8 KiB of one.
pub const ATTRIBUTES_BYTES_MAX: usize = 8 * 1_024;
/// The most bytes of the attributes of the job of a schedule, which adds two to each job.
pub const SCHEDULE_ATTRIBUTES_BYTES_MAX: usize = ATTRIBUTES_BYTES_MAX - 512;
/// The most bytes of the name of an attribute.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 64;
/// The most bytes of the value of an attribute.
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 1_024;

/// The most jobs of a batch.
pub const BATCH_JOBS_MAX: usize = 1_000;
/// The most jobs of a batch that is published as a whole or not at all.
pub const ATOMIC_BATCH_JOBS_MAX: usize = 64;
/// The most jobs of one reserve call.
pub const RESERVE_JOBS_MAX: u16 = 256;
/// The most queues of one reserve call.
pub const RESERVE_QUEUES_MAX: usize = 16;
/// The largest weight of a queue in a reserve call.
pub const QUEUE_WEIGHT_MAX: u16 = 100;
/// The most leases of one `ack`, `fail`, `touch` or `release` call.
pub const SETTLE_LEASES_MAX: usize = 1_000;
/// The most items of a page of a list.
pub const PAGE_ITEMS_MAX: u16 = 1_000;
/// The number of items of a page of a list if the request has no `limit`.
pub const PAGE_ITEMS_DEFAULT: u16 = 100;

/// The shortest lease, in ms.
pub const LEASE_MS_MIN: u64 = 100;
/// The longest lease, in ms: 24 hours.
pub const LEASE_MS_MAX: u64 = 24 * 3_600_000;
/// The most attempts of a job: a record has 12 bits for the number of failures.
pub const ATTEMPTS_MAX: u16 = 4_095;
/// The most lanes of a queue.
pub const LANES_MAX: u16 = 64;
/// The highest priority of a job; 0 is the lowest one.
pub const PRIORITY_MAX: u8 = 4;
/// The most delays of a retry policy. The last one repeats.
pub const RETRY_DELAYS_MAX: usize = 16;
/// The longest delay of a retry policy, in ms: 30 days. Its random part may make it twice as long.
pub const RETRY_DELAY_MS_MAX: u64 = 30 * 24 * 3_600_000;
/// The greatest factor of a retry policy whose delays grow.
pub const RETRY_FACTOR_MAX: f64 = 1_000.0;
/// The longest time that a finished job stays with its key, in ms: 7 days.
pub const RETAIN_MS_MAX: u64 = 7 * 24 * 3_600_000;
/// The shortest time that dead jobs are kept, in ms.
pub const KEEP_DEAD_MS_MIN: u64 = 1_000;
/// The most jobs to which a policy limits a queue.
pub const MAX_JOBS_MAX: u64 = 1_000_000_000_000;
/// The most running jobs to which a policy limits a queue.
pub const MAX_RUNNING_MAX: u64 = 1_000_000_000;
/// The most jobs of a rate.
pub const RATE_JOBS_MAX: u64 = 1_000_000;
/// The shortest time of a rate, in ms. Consumers that a rate holds back ask again every few ms at most, so that they
/// would not get the units of a shorter time evenly.
pub const RATE_PER_MS_MIN: u64 = 100;
/// The longest time of a rate, in ms: a day, for quotas of other services that are counted by day.
pub const RATE_PER_MS_MAX: u64 = 24 * 3_600_000;
/// The most bytes of the error text of a failed attempt. Longer texts are truncated.
pub const ERROR_BYTES_MAX: usize = 1_024;
/// The most attempts in the history of a job.
pub const HISTORY_ATTEMPTS_MAX: usize = 10;
/// The highest rate at which dead jobs come back, in jobs a second.
pub const RESPAWN_RATE_MAX: u32 = 100_000;

/// The most bytes of the description of an API key.
pub const DESCRIPTION_BYTES_MAX: usize = 255;
/// The most bytes of the name of a pool.
pub const POOL_BYTES_MAX: usize = 255;

/// The most bytes of the name of a worker.
pub const WORKER_NAME_BYTES_MAX: usize = 128;

/// The most bytes of the name of a schedule.
pub const SCHEDULE_NAME_BYTES_MAX: usize = 64;
/// The most bytes of the payload of a schedule.
pub const SCHEDULE_PAYLOAD_BYTES_MAX: usize = 16 * 1024;
/// The most next runs of a schedule in an answer.
pub const SCHEDULE_RUNS_MAX: u16 = 100;
/// The most bytes of the name of a limit that queues share.
pub const LIMIT_NAME_BYTES_MAX: usize = 64;
/// The most bytes of the name of a relay.
pub const RELAY_NAME_BYTES_MAX: usize = 64;
/// The most bytes of a text of a relay: a URL, a subject, a user, a secret.
pub const RELAY_TEXT_BYTES_MAX: usize = 2_048;
/// The most networks that a webhook may allow besides public addresses.
pub const RELAY_NETWORKS_MAX: usize = 64;
/// The most bytes of the name of an exchange of RabbitMQ, and of a routing key.
pub const AMQP_NAME_BYTES_MAX: usize = 255;
/// The most bytes of the name of a topic of Kafka.
pub const KAFKA_TOPIC_BYTES_MAX: usize = 249;

/// The limits that a server may configure. [`Default`] has the limits of a server without such settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigurableLimits {
    /// The most bytes of a payload.
    pub payload_bytes: usize,
    /// The most bytes of the body of a batch.
    pub batch_bytes: usize,
    /// The longest `wait`, in ms.
    pub wait_ms: u64,
    /// The longest `retain`, in ms.
    pub retain_ms: u64,
    /// The most bytes of a result.
    pub result_bytes: usize,
}

impl Default for ConfigurableLimits {
    fn default() -> Self {
        Self {
            payload_bytes: 1 << 20,
            batch_bytes: 8 << 20,
            wait_ms: 24 * 3_600_000,
            retain_ms: RETAIN_MS_MAX,
            result_bytes: 256 << 10,
        }
    }
}
