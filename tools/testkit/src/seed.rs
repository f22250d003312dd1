//! Random choices that can be repeated, and figures that are always printed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::OnceLock;

use rand::SeedableRng;
use rand::rngs::StdRng;

/// The environment variable that sets the seed, to repeat the random choices of an earlier run.
pub const SEED_VARIABLE: &str = "TIDEGATE_SEED";

/// Returns the seed of this test process: from `TIDEGATE_SEED`, else a new one. Prints it once.
///
/// # Panics
/// If the variable is not a number.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let seed = match std::env::var(SEED_VARIABLE) {
            Ok(text) => text.parse().expect("TIDEGATE_SEED must be a number"),
            Err(_) => rand::random::<u32>().into(),
        };
        print_figure(&format!(
            "{SEED_VARIABLE}={seed} repeats the random choices"
        ));
        seed
    })
}

/// Returns a random generator for one test. It depends on the seed and `name`, not on which other
/// tests run.
#[must_use]
pub fn random(name: &str) -> StdRng {
    let mut hasher = DefaultHasher::new();
    (seed(), name).hash(&mut hasher);
    StdRng::seed_from_u64(hasher.finish())
}

/// Prints a measured figure, even if the test passes: the test harness captures only what macros
/// print.
pub fn print_figure(text: &str) {
    // One write, so that lines of concurrent tests are not interleaved.
    let line = format!("  figure: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
