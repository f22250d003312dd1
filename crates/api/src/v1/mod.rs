//! The native API, `/v1`. Handlers read a request with the types of `tidegate_core::v1`, call the engine, and write the
//! answer or a problem document.

mod answer;
mod batch;
mod error;
mod explain;
mod explanation;
mod job;
mod job_details;
mod job_list;
mod keys;
mod lanes;
mod lease_text;
mod limits;
mod namespace;
mod native_request;
mod new_job;
mod openapi;
mod policy;
mod publish;
mod queues;
mod relays;
mod request_head;
mod reserve;
mod result;
mod routes;
mod schedules;
mod settle;
mod table_change;
mod workers;

pub(crate) use error::over_budget;
pub(crate) use explanation::{OVERDUE_MS, explain};
pub(crate) use job_details::{details, listed_details};
pub(crate) use keys::requested_key;
pub(crate) use openapi::document;
pub(crate) use routes::{handle, is_native};
