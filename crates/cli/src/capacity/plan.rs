//! From a load and the costs to numbers of cores, servers and bytes.

use serde::Serialize;

use super::costs::{self, CapacityCosts};
use super::load::CapacityArguments;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
const MIB: f64 = 1024.0 * 1024.0;
/// Each halves the interval in which the solution is: more than the precision of the costs.
const SEARCH_STEPS: usize = 40;

/// The needs of a load, and the limits that it reaches.
#[derive(Debug, Serialize)]
pub(super) struct CapacityPlan {
    pub(super) jobs_per_second: u64,
    pub(super) pending: u64,
    pub(super) bytes: u64,
    pub(super) busy_percent: u64,
    /// Memory of a stored job in Redis.
    pub(super) job_bytes: u64,
    /// Stored jobs whose payloads are in the cold tier, in percent.
    pub(super) cold_percent: u64,
    /// Memory of such a job in Redis.
    pub(super) cold_job_bytes: u64,
    /// Payloads in the object store.
    pub(super) object_store_gib: f64,
    /// Memory of all stored jobs, once.
    pub(super) data_gib: f64,
    /// Cores of Redis in use at the peak, in the first deployment that fits.
    pub(super) redis_cores: f64,
    pub(super) api: DaemonPlan,
    pub(super) pump: DaemonPlan,
    /// Between the daemons and the Redis primaries, in both directions.
    pub(super) network_mib_per_second: f64,
    pub(super) deployments: Vec<DeploymentPlan>,
    /// For the first deployment that fits, the nearest limit first.
    pub(super) limits: Vec<CapacityLimit>,
}

/// One kind of daemon.
#[derive(Debug, Serialize)]
pub(super) struct DaemonPlan {
    /// Cores to provide: the cores in use, and the cores that must be free.
    pub(super) cores: f64,
    pub(super) processes: u64,
    /// Memory of each process.
    pub(super) process_gib: f64,
}

/// One way to deploy Redis.
#[derive(Debug, Clone, Serialize)]
pub(super) struct DeploymentPlan {
    pub(super) name: &'static str,
    /// The limits that the load exceeds.
    pub(super) exceeds: Vec<&'static str>,
    pub(super) primaries: u64,
    /// Primaries and replicas.
    pub(super) servers: u64,
    /// `buckets` of the settings, from the first start on.
    pub(super) buckets: u64,
    /// `maxmemory` of each server.
    pub(super) maxmemory_gib: f64,
    /// Memory of the machine of each server.
    pub(super) machine_gib: f64,
    /// Disk of each server, for the append-only file.
    pub(super) disk_gib: f64,
    /// Part of a core that is in use at each primary, in percent.
    pub(super) core_percent: f64,
    /// Lanes of a queue that gets all the load.
    pub(super) lanes: u64,
}

/// A limit, and how far away it is.
#[derive(Debug, Serialize)]
pub(super) struct CapacityLimit {
    /// How many times the load reaches it.
    pub(super) times: f64,
    pub(super) what: &'static str,
    pub(super) then: &'static str,
}

impl CapacityPlan {
    pub(super) fn of(load: &CapacityArguments) -> Self {
        let rate = load.jobs_per_second as f64;
        let busy = load.busy as f64 / 100.0;
        let data = data_bytes(load);
        let need = RedisNeed {
            load,
            bytes: data,
            busy,
            server_bytes: load.redis_gib as f64 * GIB,
        };
        let deployments = vec![need.single(), need.sentinel(), need.cluster()];
        let fitting = deployments.iter().find(|it| it.exceeds.is_empty());
        let limits = fitting.map_or_else(Vec::new, |it| need.limits(it));
        let primaries = fitting.map_or(1, |it| it.primaries);
        let costs = need.costs(primaries);
        Self {
            jobs_per_second: load.jobs_per_second,
            pending: load.pending,
            bytes: load.bytes,
            busy_percent: load.busy,
            job_bytes: costs::job_bytes(load.bytes),
            cold_percent: load.cold,
            cold_job_bytes: cold_job_bytes(load),
            object_store_gib: cold_jobs(load) * (load.bytes + costs::COLD_ENTRY_BYTES) as f64 / GIB,
            data_gib: data / GIB,
            redis_cores: need.core(primaries, 1.0) * primaries as f64,
            api: api(load, rate * costs.api_us / 1e6 / busy),
            pump: pump(rate * costs.pump_us / 1e6 / busy),
            network_mib_per_second: rate * costs.network_bytes / MIB,
            deployments,
            limits,
        }
    }
}

/// Memory of all jobs. Timers that are due soon take more.
fn data_bytes(load: &CapacityArguments) -> f64 {
    let soon = (load.jobs_per_second * costs::NEAR_SECONDS).min(load.pending) as f64;
    let cold = cold_jobs(load);
    let warm = load.pending as f64 - cold;
    warm * costs::job_bytes(load.bytes) as f64
        + cold * cold_job_bytes(load) as f64
        + soon * costs::NEAR_TIMER_BYTES
}

fn cold_jobs(load: &CapacityArguments) -> f64 {
    load.pending as f64 * load.cold as f64 / 100.0
}

/// A small payload stays in Redis.
fn cold_job_bytes(load: &CapacityArguments) -> u64 {
    costs::COLD_JOB_BYTES.min(costs::job_bytes(load.bytes))
}

/// Processes of one core, as they use with the default of `threads`, and not fewer than two.
fn api(load: &CapacityArguments, cores: f64) -> DaemonPlan {
    let by_cores = cores.ceil() as u64;
    let by_consumers = load.consumers.div_ceil(costs::API_CONSUMERS_MAX);
    let processes = by_cores.max(by_consumers).max(2);
    let waiting = load.consumers.div_ceil(processes) as f64 * costs::CONSUMER_BYTES;
    DaemonPlan {
        cores,
        processes,
        process_gib: (costs::API_BUFFERS_AND_CACHES_BYTES + waiting) / GIB,
    }
}

/// Two for safety, which share the buckets; more if they have more to do.
fn pump(cores: f64) -> DaemonPlan {
    DaemonPlan {
        cores,
        processes: (cores.ceil() as u64).max(2),
        process_gib: costs::PUMP_BYTES / GIB,
    }
}

/// The needs of all Redis servers together.
struct RedisNeed<'a> {
    load: &'a CapacityArguments,
    bytes: f64,
    busy: f64,
    server_bytes: f64,
}

impl RedisNeed<'_> {
    /// The costs of a job if so many primaries share the load.
    fn costs(&self, primaries: u64) -> CapacityCosts {
        let rate = self.load.jobs_per_second as f64 / primaries as f64;
        CapacityCosts::of(self.load.requests, self.load.bytes, rate)
    }

    /// Cores in use at each of so many primaries, at so many times the load. Lanes cost more CPU than a queue in one
    /// place; the plan of a cluster is for queues that all have lanes.
    fn core(&self, primaries: u64, times: f64) -> f64 {
        let factor = if primaries > 1 {
            costs::LANES_FACTOR
        } else {
            1.0
        };
        let rate = self.load.jobs_per_second as f64 * times / primaries as f64;
        let costs = CapacityCosts::of(self.load.requests, self.load.bytes, rate);
        rate * costs.redis_us * factor / 1e6
    }

    /// How many times the load keeps the cores of so many primaries as busy as they may be. A job costs less at higher
    /// rates, so this is searched for.
    fn core_times(&self, primaries: u64) -> f64 {
        let is_busy = |times: f64| self.core(primaries, times) > self.busy;
        let (mut low, mut high) = (0.0, 1.0);
        while !is_busy(high) && high.is_finite() {
            high *= 2.0;
        }
        for _ in 0..SEARCH_STEPS {
            let middle = f64::midpoint(low, high);
            if is_busy(middle) {
                high = middle
            } else {
                low = middle
            }
        }
        high
    }

    fn single(&self) -> DeploymentPlan {
        self.on("one Redis", 1, 1)
    }

    fn sentinel(&self) -> DeploymentPlan {
        self.on("Redis with Sentinel", 1, 1 + self.load.replicas.max(1))
    }

    fn cluster(&self) -> DeploymentPlan {
        let by_bytes = (self.bytes / costs::FILL_MAX / self.server_bytes).ceil() as u64;
        let most = costs::BUCKETS_MAX / costs::BUCKETS_PER_PRIMARY;
        let mut primaries = by_bytes.max(costs::PRIMARIES_MIN);
        while self.core(primaries, 1.0) > self.busy && primaries < most {
            primaries += 1;
        }
        self.on(
            "Redis Cluster",
            primaries,
            primaries * (1 + self.load.replicas),
        )
    }

    fn on(&self, name: &'static str, primaries: u64, servers: u64) -> DeploymentPlan {
        let core = self.core(primaries, 1.0);
        let maxmemory = self.bytes / costs::FILL_MAX / primaries as f64;
        let buckets = (primaries * costs::BUCKETS_PER_PRIMARY).next_power_of_two();
        let mut exceeds = Vec::new();
        if core > self.busy {
            exceeds.push("the core of a Redis");
        }
        if maxmemory > self.server_bytes {
            exceeds.push("the memory of a Redis");
        }
        if buckets > costs::BUCKETS_MAX {
            exceeds.push("the number of buckets");
        }
        DeploymentPlan {
            name,
            exceeds,
            primaries,
            servers,
            buckets: buckets.clamp(costs::BUCKETS_DEFAULT, costs::BUCKETS_MAX),
            maxmemory_gib: maxmemory / GIB,
            machine_gib: maxmemory * costs::MACHINE_FACTOR / GIB,
            disk_gib: self.bytes / primaries as f64 * costs::DISK_FACTOR / GIB,
            core_percent: core * 100.0,
            lanes: if primaries == 1 {
                1
            } else {
                (2 * primaries).next_power_of_two().min(costs::LANES_MAX)
            },
        }
    }

    /// The first limit of the deployment when the load grows as a whole.
    fn limits(&self, deployment: &DeploymentPlan) -> Vec<CapacityLimit> {
        let is_cluster = deployment.primaries > 1;
        let (core, memory) = match is_cluster {
            true => ("the core of each primary", "the memory of each primary"),
            false => ("the core of Redis", "the memory of Redis"),
        };
        let grow = match is_cluster {
            true => "add primaries",
            false => {
                "send jobs in batches, give namespaces pools of their own, or use Redis Cluster"
            }
        };
        let mut limits = vec![
            CapacityLimit {
                times: self.core_times(deployment.primaries),
                what: core,
                then: grow,
            },
            CapacityLimit {
                times: self.server_bytes / GIB / deployment.maxmemory_gib,
                what: memory,
                then: match is_cluster {
                    true => grow,
                    false => "raise maxmemory (--redis-gib), or use Redis Cluster",
                },
            },
        ];
        if is_cluster {
            let most = costs::BUCKETS_MAX / costs::BUCKETS_PER_PRIMARY;
            limits.push(CapacityLimit {
                times: most as f64 / deployment.primaries as f64,
                what: "the number of buckets",
                then: "give namespaces pools of their own",
            });
            limits.push(CapacityLimit {
                times: costs::LANES_MAX as f64 / deployment.primaries as f64,
                what: "the lanes of one queue that gets all the load",
                then: "use several queues",
            });
        }
        limits.retain(|limit| limit.times.is_finite());
        limits.sort_by(|one, other| one.times.total_cmp(&other.times));
        limits
    }
}

#[cfg(test)]
mod tests;
