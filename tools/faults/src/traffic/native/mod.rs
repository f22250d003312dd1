//! Clients of the native API.
//!
//! | client | does |
//! |---|---|
//! | [`producer`] | publishes alone, in batches and atomic batches, with and without keys; repeats requests |
//! | [`held`] | publishes bursts to the queues whose jobs wait for a group or a rate |
//! | [`turns`] | publishes jobs of several groups and priorities to a private queue, then reserves them one by one |
//! | [`editor`] | cancels, changes, promotes, shows and respawns what was published |
//! | [`worker`] | reserves, and settles in every way; sometimes never, late or twice |

mod draw;
mod editor;
mod held;
mod producer;
mod turns;
mod worker;

pub(super) use editor::Editor;
pub(super) use held::HeldProducer;
pub(super) use producer::NativeProducer;
pub(super) use turns::TurnClient;
pub(super) use worker::{LeaseBehavior, NativeWorker};
