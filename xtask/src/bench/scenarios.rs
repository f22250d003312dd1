//! The scenarios in the order in which they run, with their flags for `--quick`.

/// A scenario of the load generator.
#[derive(Debug)]
pub(crate) struct BenchScenario {
    pub(crate) name: &'static str,
    /// Its flags with `--quick`. Without it the defaults of the load generator apply, as in
    /// docs/benchmarks.md.
    quick: &'static str,
    /// Whether it compares one Redis with a cluster, alternately.
    pub(crate) versus_cluster: bool,
}

const fn scenario(name: &'static str, quick: &'static str) -> BenchScenario {
    BenchScenario {
        name,
        quick,
        versus_cluster: false,
    }
}

pub(crate) const SCENARIOS: [BenchScenario; 12] = [
    scenario("idle", "--seconds 3 --settle 2"),
    scenario("publish", "--seconds 2"),
    scenario("consume", "--jobs 20000"),
    scenario("bulk", "--jobs 20000"),
    scenario("ceiling", "--jobs 20000"),
    scenario("lateness", "--pending 20000 --rates 500 --seconds 3"),
    scenario("burst", "--jobs 20000 --queues 20"),
    scenario("memory", "--jobs 50000"),
    scenario(
        "parked",
        "--waiters 500 --queues 20 --seconds 2 --wakes 200",
    ),
    scenario("neighbours", "--seconds 2 --huge 20000"),
    BenchScenario {
        versus_cluster: true,
        ..scenario("lanes", "--seconds 1 --rounds 1")
    },
    scenario("growth", "--levels 1000,20000 --seconds 2"),
];

impl BenchScenario {
    pub(crate) fn flags(&self, quick: bool) -> impl Iterator<Item = &'static str> {
        let flags = if quick { self.quick } else { "" };
        flags.split_whitespace()
    }
}

/// Returns the names for the command line.
pub(crate) fn names() -> Vec<&'static str> {
    SCENARIOS.iter().map(|scenario| scenario.name).collect()
}
