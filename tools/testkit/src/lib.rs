//! Fixtures of the end-to-end tests: real daemons on a real Redis, private to one test.
//!
//! | module | gives |
//! |---|---|
//! | [`stack`] | a Redis with daemons: start, kill, pause, restart, finish |
//! | [`redis_server`] | a single Redis |
//! | [`sentinel_group`] | a master, its replicas, and sentinels that monitor them |
//! | [`cluster_group`] | primaries with replicas, and slots that move |
//! | [`redis_control`], [`mod@full_disk`] | faults of a running Redis, by its commands and by a full disk |
//! | [`fault_proxy`] | network faults: delay, stall, cut, silence |
//! | [`wall_clock`] | a wrong wall clock for a process |
//! | [`tls_proxy`], [`certificates`] | TLS in front of a Redis, with certificates made for the test |
//! | [`daemon`] | a daemon process |
//! | [`program`] | a run of a daemon that is expected to end |
//! | [`queue`] | an HTTP client of one queue |
//! | [`NativeClient`] | a client of the native API, which checks each answer against the OpenAPI document |
//! | [`OtlpReceiver`] | a collector of the spans that daemons send |
//! | [`raw`] | a client that sends exact bytes and may violate the protocol |
//! | [`webhook_relay`] | the settings of a relay |
//! | [`traffic`] | clients that continue during faults |
//! | [`same_answer`] | the comparison of an answer with an answer that a document shows |
//! | [`consistency`] | the check that no job was lost, orphaned or counted wrongly |
//! | [`mod@eventually`] | waiting for a condition, instead of for a fixed time |
//! | [`mod@seed`] | random choices that can be repeated |
//!
//! All functions panic on errors, which fails the test. A process ends when its handle is dropped, or when the
//! test process dies. When a test fails, the folder with the logs is kept, and its path is printed.

mod admin_call;
mod answer;
mod api_document;
mod binary;
pub mod certificates;
pub mod cluster_group;
pub mod consistency;
pub mod daemon;
mod documented;
pub mod eventually;
mod far_api;
pub mod fault_proxy;
pub mod full_disk;
mod native_client;
mod otlp_receiver;
mod process;
pub mod program;
pub mod queue;
pub mod raw;
pub mod redis_control;
pub mod redis_server;
mod relay;
pub mod seed;
pub mod sentinel_group;
mod shared_stack;
pub mod stack;
pub mod tls_proxy;
mod tool_package;
pub mod traffic;
pub mod wall_clock;

pub use answer::Answer;
pub use api_document::check_native_answer;
pub use certificates::CertificateAuthority;
pub use cluster_group::{ClusterGroup, SlotMove};
pub use daemon::Daemon;
pub use documented::same_answer;
pub use eventually::{eventually, eventually_unless_stalled};
pub use far_api::FarApi;
pub use fault_proxy::FaultProxy;
pub use full_disk::limit_file_size;
pub use native_client::NativeClient;
pub use otlp_receiver::{OtlpReceiver, ReceivedSpan};
pub use process::full_pipe;
pub use program::{
    DaemonProgram, ProgramExit, run_until_exit, run_until_exit_with, run_with_settings,
    stop_when_logged,
};
pub use queue::{PublishBuilder, QueueClient, ReceivedJob};
pub use raw::RawHttp;
pub use redis_control::{NO_SERVER, RedisControl, connect_to_redis};
pub use redis_server::{RedisOptions, WholeFile, start_redis};
pub use relay::webhook_relay;
pub use seed::{print_figure, random, seed};
pub use sentinel_group::SentinelGroup;
pub use shared_stack::{SharedStack, SharedStackGuard};
pub use stack::Stack;
pub use tidegate_local_redis::{RedisServer, free_port};
pub use tls_proxy::TlsProxy;
pub use tool_package::{ToolFolder, ToolPackage};
pub use traffic::BackgroundTraffic;
pub use wall_clock::WallClock;
