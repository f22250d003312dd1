//! Clients of the native API.
//!
//! | client | does |
//! |---|---|
//! | [`producer`] | publishes alone, in batches and atomic batches, with and without keys; repeats requests |
//! | [`editor`] | cancels, changes, promotes, shows and respawns what was published |
//! | [`worker`] | reserves, and settles in every way; sometimes never, late or twice |

mod draw;
mod editor;
mod producer;
mod worker;

pub(super) use editor::Editor;
pub(super) use producer::NativeProducer;
pub(super) use worker::{LeaseBehavior, NativeWorker};
