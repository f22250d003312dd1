//! Invalid bytes, sent in unusual ways.
//!
//! Streams of HTTP requests are generated from a grammar with every route, mutated byte by byte, mixed with a corpus,
//! and sent in pieces, slowly or in part to both ports of a real API. In all cases the daemon runs, has not panicked,
//! answers no 5xx, leaves no connection hanging, and answers valid HTTP. Meanwhile an ordinary client is served.
//!
//! | module | content |
//! |---|---|
//! | `grammar`, `values`, `bodies` | requests for every route, valid and invalid |
//! | `mutate` | changes of their bytes |
//! | `corpus`, `long` | fixed cases, one for each file or entry; all are sent in every run |
//! | `delivery` | the ways to send them, and what is received |
//! | `wire`, `verdict` | whether that is valid HTTP, and a valid answer of Tidegate |
//! | `campaign` | many clients at once for some time, and the checks at the end |
//! | `failure` | the report of a case that failed, in its shortest form |
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

/// The duration of a campaign, such as `10m`.
const TIME_VARIABLE: &str = "TIDEGATE_FUZZ";
const TIME: Duration = Duration::from_secs(10);
/// A file, or a folder of files, to send instead of the corpus.
const CASE_VARIABLE: &str = "TIDEGATE_FUZZ_CASE";

/// Sends every entry of the corpus in every way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_corpus_is_answered_or_closed_however_it_is_delivered() {
    let target = target::FuzzTarget::start().await;
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
        Ok(text) => {
            tidegate_core::duration::parse(&text).expect("TIDEGATE_FUZZ is a time such as 10m")
        }
        Err(_) => TIME,
    };
    let target = target::FuzzTarget::start().await;
    campaign::run(&target, time).await;
    target.finish().await;
}
