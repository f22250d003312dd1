//! Random cases that are repeated with a seed.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// Runs this many cases. A case that fails is shortened and shown, with the seed that repeats it.
pub(crate) fn try_cases<S: Strategy>(seed: u64, cases: u32, all: &S, run: impl Fn(S::Value)) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let result = TestRunner::new_with_rng(config, rng).run(all, |case| {
        run(case);
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!("TIDEGATE_SEED={seed}: {why}\n{case:#?}"),
        Err(error) => panic!("TIDEGATE_SEED={seed}: {error}"),
    }
}

/// The number of cases to run: that of `TIDEGATE_SEQUENCES`, if it is set.
pub(crate) fn cases_or(usual: u32) -> u32 {
    let wanted = std::env::var("TIDEGATE_SEQUENCES").ok();
    wanted.map_or(usual, |number| number.parse().unwrap())
}
