use super::super::load::RequestSize;
use super::*;

fn load(jobs_per_second: u64, pending: u64) -> CapacityArguments {
    CapacityArguments {
        jobs_per_second,
        pending,
        bytes: 100,
        cold: 0,
        requests: RequestSize::Single,
        consumers: 0,
        redis_gib: 32,
        replicas: 1,
        busy: 60,
    }
}

/// The first deployment that fits.
fn fitting(plan: &CapacityPlan) -> &DeploymentPlan {
    let mut all = plan.deployments.iter();
    all.find(|it| it.exceeds.is_empty()).expect("one fits")
}

#[test]
fn one_redis_does_what_was_measured_on_one() {
    let plan = CapacityPlan::of(&load(15_000, 1_000_000));
    let one = fitting(&plan);
    assert_eq!((one.name, one.servers), ("one Redis", 1));
    // Measured: 30.6 µs of Redis a job at that rate.
    assert!((one.core_percent - 45.9).abs() < 0.1, "{one:?}");
    // 167 bytes, and 100 for the timers that are due soon.
    assert!((plan.data_gib - 0.249).abs() < 0.001, "{plan:?}");
    let core = plan.limits.iter().find(|it| it.what == "the core of Redis");
    let rate = 15_000.0 * core.unwrap().times;
    assert!((rate * 30.6e-6 - 0.6).abs() < 0.001, "{rate}");
}

/// A job costs less at higher rates, so a small load is further from the limit than its CPU suggests.
#[test]
fn the_limit_of_the_core_does_not_depend_on_the_load() {
    for rate in [100, 1_000, 7_000, 15_000] {
        let plan = CapacityPlan::of(&load(rate, 1000));
        let core = plan.limits.iter().find(|it| it.what == "the core of Redis");
        let reached_at = rate as f64 * core.unwrap().times;
        assert!((reached_at - 19_608.0).abs() < 1.0, "{rate}: {reached_at}");
    }
}

#[test]
fn payloads_in_the_cold_tier_need_no_memory_of_redis() {
    let far = |cold| {
        let load = CapacityArguments {
            bytes: 1000,
            cold,
            ..load(10, 10_000_000)
        };
        CapacityPlan::of(&load)
    };
    let (warm, half, cold) = (far(0), far(50), far(100));
    assert!((warm.data_gib - 10.6).abs() < 0.1, "{warm:?}");
    assert!((cold.data_gib - 0.7).abs() < 0.1, "{cold:?}");
    assert!((half.data_gib * 2.0 - warm.data_gib - cold.data_gib).abs() < 0.01);
    assert!((cold.object_store_gib - 9.6).abs() < 0.1, "{cold:?}");
}

/// The figures of a plan, and the name of each.
fn provided(plan: &CapacityPlan) -> [(&'static str, f64); 10] {
    let it = fitting(plan);
    let cluster = &plan.deployments[2];
    [
        ("primaries", it.primaries as f64),
        ("servers", it.servers as f64),
        ("servers of the cluster", cluster.servers as f64),
        ("data", plan.data_gib),
        ("maxmemory", it.maxmemory_gib * it.primaries as f64),
        ("cores of Redis", plan.redis_cores),
        ("cores of the API", plan.api.cores),
        ("processes of the API", plan.api.processes as f64),
        ("cores of the pump", plan.pump.cores),
        ("processes of the pump", plan.pump.processes as f64),
    ]
}

/// No plan for these loads provides less than the plan before it.
fn assert_never_less(loads: impl Iterator<Item = CapacityArguments>) {
    let mut before: Option<[(&'static str, f64); 10]> = None;
    for load in loads {
        let now = provided(&CapacityPlan::of(&load));
        for ((name, less), (_, more)) in before.iter().flatten().zip(now) {
            // Level values differ by their rounding.
            assert!(
                more >= less * (1.0 - 1e-9),
                "{name}: {less}, then {more} with {load:?}"
            );
        }
        before = Some(now);
    }
}

#[test]
fn more_jobs_never_need_less() {
    for requests in [RequestSize::Single, RequestSize::Batch] {
        assert_never_less((0..60).map(|step| {
            let rate = (1.3_f64.powi(step)) as u64;
            CapacityArguments {
                requests,
                ..load(rate.min(1_000_000), rate * 1000)
            }
        }));
        for busy in [20, 35, 40, 60] {
            assert_never_less((1..=80).map(|step| CapacityArguments {
                requests,
                busy,
                ..load(250 * step, 250_000 * step)
            }));
        }
    }
}

#[test]
fn the_largest_load_needs_a_cluster_within_its_limits() {
    let plan = CapacityPlan::of(&load(1_000_000, 10_000_000_000));
    assert_eq!(plan.deployments[0].exceeds.len(), 2);
    let cluster = fitting(&plan);
    assert_eq!(cluster.name, "Redis Cluster");
    assert!(
        cluster.core_percent <= 60.0 && cluster.maxmemory_gib <= 32.0,
        "{cluster:?}"
    );
    assert!(cluster.buckets >= 20 * cluster.primaries && cluster.buckets.is_power_of_two());
    assert_eq!(cluster.servers, 2 * cluster.primaries);
    assert!(plan.limits.len() == 4 && plan.limits.is_sorted_by_key(|it| it.times));
}

#[test]
fn what_fits_nowhere_says_so() {
    let plan = CapacityPlan::of(&CapacityArguments {
        bytes: 16_000_000,
        redis_gib: 1,
        ..load(10_000_000, 1_000_000_000_000)
    });
    assert!(plan.deployments.iter().all(|it| !it.exceeds.is_empty()));
    assert!(plan.limits.is_empty());
}

#[test]
fn a_load_of_nothing_has_no_rate_limit() {
    let plan = CapacityPlan::of(&load(0, 0));
    assert_eq!(fitting(&plan).name, "one Redis");
    assert!(plan.limits.is_empty());
}

#[test]
fn consumers_need_processes_and_memory() {
    let plan = CapacityPlan::of(&CapacityArguments {
        consumers: 120_000,
        ..load(100, 1000)
    });
    assert_eq!(plan.api.processes, 3);
    assert!((plan.api.process_gib - 1.49).abs() < 0.01, "{:?}", plan.api);
}
