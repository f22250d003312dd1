//! Bytes that no client should send, in ways that no client should send them.
//!
//! Streams of HTTP requests are generated from a grammar that knows every route, changed byte by byte,
//! mixed with a corpus, and delivered in pieces, slowly, half or not at all, to both ports of a real
//! api. Whatever comes: the daemon lives, has not panicked, answers no 5xx, leaves no connection hanging,
//! and what it answers is HTTP. Meanwhile an ordinary client goes on as if nothing were the matter.
//!
//! | module | has |
//! |---|---|
//! | `grammar`, `values`, `bodies` | what is sent: requests for every route, and everything wrong with them |
//! | `mutate` | the same with bytes changed |
//! | `corpus`, `long` | one idea a file, or an entry; each is sent in every run |
//! | `delivery` | how it is sent, and what comes back |
//! | `wire`, `verdict` | whether that is HTTP, and the HTTP that was promised |
//! | `campaign` | all of it at once for a while, and what must hold at the end |
//! | `failure` | what is told of a case that failed, and its shortest form |
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod bodies;
mod campaign;
mod corpus;
mod delivery;
mod failure;
mod grammar;
mod long;
mod mutate;
mod target;
mod values;
mod verdict;
mod wire;

use std::path::PathBuf;
use std::time::Duration;

/// How long to go on, such as `10m`.
const TIME_VARIABLE: &str = "TIDEGATE_FUZZ";
const TIME: Duration = Duration::from_secs(10);
/// A file, or a folder of files, to send instead of the corpus.
const CASE_VARIABLE: &str = "TIDEGATE_FUZZ_CASE";

/// Every entry in every delivery, before anything is random.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_corpus_is_answered_or_closed_however_it_is_delivered() {
    let target = target::Target::start().await;
    let given = std::env::var_os(CASE_VARIABLE).map(PathBuf::from);
    let (entries, expected) = match &given {
        Some(path) => (corpus::read(path), campaign::OF_A_GIVEN_CASE),
        None => (corpus::shipped(), campaign::OF_THE_CORPUS),
    };
    campaign::replay(&target, entries, &expected).await;
    target.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_leads_to_a_panic_a_500_or_a_hang() {
    if std::env::var_os(CASE_VARIABLE).is_some() {
        return;
    }
    let time = match std::env::var(TIME_VARIABLE) {
        Ok(text) => humantime::parse_duration(&text).expect("TIDEGATE_FUZZ is a time such as 10m"),
        Err(_) => TIME,
    };
    let target = target::Target::start().await;
    campaign::run(&target, time).await;
    target.finish().await;
}
