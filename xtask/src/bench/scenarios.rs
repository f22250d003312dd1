//! The scenarios in the order in which they run, with their flags for `--quick`.

/// A scenario of the load generator.
#[derive(Debug)]
pub(crate) struct BenchScenario {
    pub(crate) name: &'static str,
    /// Its name for the load generator.
    pub(crate) command: &'static str,
    /// Its flags. Otherwise the defaults of the load generator apply, as in docs/benchmarks.md.
    flags: &'static str,
    /// Its further flags with `--quick`.
    quick: &'static str,
    pub(crate) stack: BenchStackKind,
    /// A second stack, with which the first one is compared in turns.
    pub(crate) versus: Option<BenchStackKind>,
}

/// The Redis of a stack, and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchStackKind {
    One,
    /// Three primaries.
    Cluster,
    /// One Redis, and the cold tier in a folder.
    Cold,
}

const fn scenario(name: &'static str, quick: &'static str) -> BenchScenario {
    BenchScenario {
        name,
        command: name,
        flags: "",
        quick,
        stack: BenchStackKind::One,
        versus: None,
    }
}

/// A scenario with other flags than another one.
const fn variant(
    name: &'static str,
    command: &'static str,
    flags: &'static str,
    quick: &'static str,
) -> BenchScenario {
    BenchScenario {
        name,
        command,
        flags,
        quick,
        stack: BenchStackKind::One,
        versus: None,
    }
}

const BOTH_WIRES: &str = "--wire lmstfy --vs-wire native";

pub(crate) const SCENARIOS: [BenchScenario; 21] = [
    scenario("idle", "--seconds 3 --settle 2"),
    scenario("publish", "--seconds 2"),
    scenario("consume", "--jobs 20000"),
    scenario("bulk", "--jobs 20000"),
    scenario("floor", "--jobs 5000 --turns 1"),
    scenario("lateness", "--pending 20000 --rates 500 --seconds 3"),
    scenario("burst", "--jobs 20000 --queues 20"),
    scenario("memory", "--jobs 50000"),
    BenchScenario {
        stack: BenchStackKind::Cold,
        ..variant(
            "memory-cold",
            "memory",
            "--cold --body-bytes 1000 --spread 30d",
            "--jobs 50000",
        )
    },
    BenchScenario {
        stack: BenchStackKind::Cold,
        ..variant(
            "lateness-cold",
            "lateness",
            "",
            "--pending 20000 --rates 500 --seconds 3",
        )
    },
    scenario(
        "parked",
        "--waiters 500 --queues 20 --seconds 2 --wakes 200",
    ),
    scenario("neighbours", "--seconds 2 --huge 20000"),
    BenchScenario {
        versus: Some(BenchStackKind::Cluster),
        ..scenario("lanes", "--seconds 1 --rounds 1")
    },
    BenchScenario {
        versus: Some(BenchStackKind::Cluster),
        ..variant("lanes-keyed", "lanes", "--keyed", "--seconds 1 --rounds 1")
    },
    variant(
        "publish-wires",
        "publish",
        BOTH_WIRES,
        "--seconds 2 --rounds 1",
    ),
    variant(
        "publish-keyed",
        "publish",
        "--keyed --wire lmstfy --vs-wire native",
        "--seconds 2 --rounds 1",
    ),
    variant(
        "consume-wires",
        "consume",
        BOTH_WIRES,
        "--jobs 20000 --rounds 1",
    ),
    variant("bulk-native", "bulk", "--wire native", "--jobs 20000"),
    scenario("touch", "--leases 2000 --every 2 --seconds 5"),
    scenario("policy", "--jobs 5000 --turns 1"),
    scenario("schedules", "--schedules 200 --seconds 3"),
];

impl BenchScenario {
    pub(crate) fn flags(&self, quick: bool) -> impl Iterator<Item = &'static str> {
        let quick = if quick { self.quick } else { "" };
        self.flags
            .split_whitespace()
            .chain(quick.split_whitespace())
    }
}

/// Returns the names for the command line.
pub(crate) fn names() -> Vec<&'static str> {
    SCENARIOS.iter().map(|scenario| scenario.name).collect()
}
