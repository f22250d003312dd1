//! Relays with real servers and brokers.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod endpoint;
mod examples;
mod fixture;
mod kafka;
mod lmstfy;
mod nats;
mod nats_connections;
mod rabbitmq;
mod settings;
mod status;
mod stored;
mod tidegate_sink;
mod tls;
mod traces;
mod webhook;
