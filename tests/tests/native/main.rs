//! The native API, `/v1`, tested with real processes.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod absent_workers;
mod access;
mod bad_requests;
mod docs;
mod explain;
mod groups;
mod guide;
mod headers;
mod job_actions;
mod job_lists;
mod jobs;
mod keys;
mod leases;
mod limits;
mod list_shares;
mod many_names;
mod namespace_limits;
mod namespace_quotas;
mod operator;
mod operator_keys;
mod priorities;
mod queues;
mod quota_races;
mod races;
mod readme;
mod refusals;
mod relays;
mod results;
mod runs;
mod schedules;
mod settling_reserves;
mod traces;
mod wires;
mod workers;
