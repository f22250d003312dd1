//! Runs the checks of the fuzz targets without a fuzzer: on the stored corpora, on mutated corpora, and on random
//! bytes. A failing case is shrunk, and reported with its seed, which `TIDEGATE_SEED` repeats. Tests of the
//! packages include this file.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let files =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let corpus: Vec<Vec<u8>> = files
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect();
    assert!(!corpus.is_empty(), "{target} has an empty corpus");
    corpus
}

fn mutated(mut bytes: Vec<u8>, changes: Vec<(Index, u8)>) -> Vec<u8> {
    for (at, byte) in changes {
        let at = at.index(bytes.len());
        bytes[at] = byte;
    }
    bytes
}

/// Runs a check on the corpus of a target, on mutations of it, and on random bytes.
pub(crate) fn check_corpus(target: &str, check: fn(&[u8])) {
    let corpus = corpus(target);
    corpus.iter().for_each(|bytes| check(bytes));
    let changes = prop::collection::vec(any::<(Index, u8)>(), 1..4);
    let near_corpus =
        (select(corpus), changes).prop_map(|(bytes, changes)| mutated(bytes, changes));
    let random = prop::collection::vec(any::<u8>(), 0..300);
    let seed = seed();
    let config = Config {
        cases: 2000,
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let checked =
        TestRunner::new_with_rng(config, rng).run(&prop_oneof![near_corpus, random], |bytes| {
            check(&bytes);
            Ok(())
        });
    assert!(checked.is_ok(), "TIDEGATE_SEED={seed}: {checked:?}");
}

fn seed() -> u64 {
    match std::env::var("TIDEGATE_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => RandomState::new().hash_one(()),
    }
}
