//! The parts that front doors share: requests, bodies, JSON, time limits, the access log and the metrics of requests.
//! They do not depend on the API of a front door.

pub(crate) mod access_log;
pub(crate) mod body;
pub(crate) mod context;
pub(crate) mod delivery_body;
pub(crate) mod drained_server;
pub(crate) mod etag;
pub(crate) mod exchange;
pub(crate) mod json;
pub(crate) mod metrics;
pub(crate) mod off_runtime;
pub(crate) mod query;
pub(crate) mod request;
pub(crate) mod time_limit;
pub(crate) mod unread;
