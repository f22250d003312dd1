//! Clients of the native API, and clients of the lmstfy wire on the same queues.
//!
//! | client | does |
//! |---|---|
//! | [`producer`] | publishes alone, in batches and atomic batches, with and without keys; repeats requests |
//! | [`editor`] | cancels, changes, promotes, shows and respawns what was published |
//! | [`worker`] | reserves, and settles with every verb; sometimes never, late or twice |
//! | [`lmstfy_side`] | publishes and consumes on the lmstfy wire, on two of the queues |

mod answers;
mod client;
mod draw;
mod editor;
mod lmstfy_side;
mod producer;
mod request;
mod worker;

pub(super) use client::NativeFaultClient;
pub(super) use editor::Editor;
pub(super) use lmstfy_side::LmstfySide;
pub(super) use producer::NativeProducer;
pub(super) use worker::{LeaseHabit, NativeWorker};
