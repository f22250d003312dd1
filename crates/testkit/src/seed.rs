//! Random choices that can be repeated, and figures that are always shown.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::OnceLock;

use rand::SeedableRng;
use rand::rngs::StdRng;

/// The environment variable that repeats an earlier run's random choices.
pub const SEED_VARIABLE: &str = "TIDEGATE_SEED";

/// The seed of this test process: from `TIDEGATE_SEED`, else a new one. It is printed once.
///
/// # Panics
/// When the variable is no number.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let seed = match std::env::var(SEED_VARIABLE) {
            Ok(text) => text.parse().expect("TIDEGATE_SEED must be a number"),
            Err(_) => rand::random::<u32>().into(),
        };
        figure(&format!(
            "{SEED_VARIABLE}={seed} repeats the random choices"
        ));
        seed
    })
}

/// The random choices of one test. `name` keeps tests apart: what one draws does not depend on which
/// others run.
#[must_use]
pub fn random(name: &str) -> StdRng {
    let mut hasher = DefaultHasher::new();
    (seed(), name).hash(&mut hasher);
    StdRng::seed_from_u64(hasher.finish())
}

/// Shows a measured figure, also when the test passes: the test harness hides what is printed by
/// macros only.
pub fn figure(text: &str) {
    // One write, so that lines of tests running side by side stay whole.
    let line = format!("  figure: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
