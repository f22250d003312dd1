//! Consuming: waiting for jobs, the verbs for jobs that consumers hold, and the consumers themselves.

mod follow;
pub(crate) mod job_ends;
pub(crate) mod result;
pub(crate) mod settle;
pub(crate) mod waiters;
pub(crate) mod workers;
