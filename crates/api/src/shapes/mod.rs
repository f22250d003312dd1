//! What the engine returns, in the shapes of `tidegate_core::v1`: shared by the native API and the dashboard.

mod content;
mod duration;
mod explanation;
mod job;
mod queue;

pub(crate) use content::{attributes_of, content_type_of, key_of, payload_of, stored_attributes};
pub(crate) use duration::duration_text;
pub(crate) use explanation::{OVERDUE_MS, explain};
pub(crate) use job::{details, has_result, listed_details};
pub(crate) use queue::queue_view;
