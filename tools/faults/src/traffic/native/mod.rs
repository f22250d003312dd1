//! Clients of the native API, and clients of the lmstfy wire on the same queues.
//!
//! | client | does |
//! |---|---|
//! | [`producer`] | publishes alone, in batches and atomic batches, with and without keys; repeats requests |
//! | [`editor`] | cancels, changes, promotes, shows and respawns what was published |
//! | [`worker`] | reserves, and settles in every way; sometimes never, late or twice |
//! | [`lmstfy_producer`] | publishes on the lmstfy wire, to two of the queues |

mod answers;
mod client;
mod draw;
mod editor;
mod http_request;
mod key_text;
mod lmstfy_producer;
mod producer;
mod publish_request;
mod request;
mod worker;

pub(super) use client::NativeFaultClient;
pub(super) use editor::Editor;
pub(super) use lmstfy_producer::LmstfyProducer;
pub(super) use producer::NativeProducer;
pub(super) use worker::{LeaseHabit, NativeWorker};
