//! The commands of Youzan's delay queue, and the paths of its implementation `ouqiang/delay-queue`, on a listener of
//! their own. `docs/youzan.md` describes both. A topic is a queue of one namespace, and the id of a job is its key.
//!
//! A handler reads a command, calls the pool, and returns the outcome; [`answer`] writes it in the form of the path.
//! The handlers have the names of the verbs of the pool: `add` is [`publish`], `pop` is [`reserve`], `finish` is
//! [`ack`], `delete` is [`cancel`], and `get` is [`peek`].

mod ack;
mod answer;
mod cancel;
mod error;
mod fields;
mod job_id;
mod listener;
mod metrics;
mod peek;
mod publish;
mod request;
mod reserve;
mod routes;
mod service;
mod topic;

pub(crate) use listener::YouzanListener;
