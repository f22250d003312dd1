//! What the tests of the whole are made of: real daemons on a real Redis, all private to one test.
//!
//! | module | gives |
//! |---|---|
//! | [`stack`] | a Redis with daemons on it: start, kill, pause, restart, finish |
//! | [`redis_server`] | a Redis alone |
//! | [`sentinel_group`] | a master, its replicas, and sentinels that watch them |
//! | [`cluster_group`] | primaries with replicas, and slots that move |
//! | [`redis_control`], [`mod@full_disk`] | what an operator or an accident does to a running Redis |
//! | [`fault_proxy`] | what networks do to connections: delay, stall, cut, silence |
//! | [`wall_clock`] | a process whose clock is wrong |
//! | [`tls_proxy`], [`certificates`] | TLS before a Redis, with certificates made for the test |
//! | [`daemon`] | one daemon process |
//! | [`program`] | a run of a daemon that ends by itself |
//! | [`queue`] | a client bound to a queue, so that a test reads like a transcript |
//! | [`raw`] | a client that sends exact bytes and may misbehave |
//! | [`traffic`] | clients that go on while things break |
//! | [`world`] | the check that nothing was lost, orphaned or counted wrongly |
//! | [`mod@eventually`] | waiting for a condition, never for a while |
//! | [`mod@seed`] | random choices that can be repeated |
//!
//! Everything panics when it cannot do what it is told: that is how a test fails. Whatever was started
//! is ended when its handle is dropped, or when the test process dies; when a test fails, the folder
//! with the logs stays and is told.

mod answer;
mod binary;
pub mod certificates;
pub mod cluster_group;
pub mod daemon;
pub mod eventually;
pub mod fault_proxy;
pub mod full_disk;
mod process;
pub mod program;
pub mod queue;
pub mod raw;
pub mod redis_control;
pub mod redis_server;
pub mod seed;
pub mod sentinel_group;
mod shared;
pub mod stack;
pub mod tls_proxy;
pub mod traffic;
pub mod wall_clock;
mod watchdog;
pub mod world;

pub use answer::Answer;
pub use certificates::Authority;
pub use cluster_group::{ClusterGroup, SlotMove};
pub use daemon::Daemon;
pub use eventually::eventually;
pub use fault_proxy::FaultProxy;
pub use full_disk::limit_disk;
pub use process::full_pipe;
pub use program::{Ended, Program, run_to_end, run_to_end_with, stop_when_said};
pub use queue::{Delivery, Publish, Queue};
pub use raw::RawHttp;
pub use redis_control::RedisControl;
pub use redis_server::{RedisOptions, redis};
pub use seed::{figure, random, seed};
pub use sentinel_group::SentinelGroup;
pub use shared::{Lent, SharedStack};
pub use stack::Stack;
pub use tidegate_local_redis::{RedisServer, free_port};
pub use tls_proxy::TlsProxy;
pub use traffic::Traffic;
pub use wall_clock::WallClock;
