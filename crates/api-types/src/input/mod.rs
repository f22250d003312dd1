//! Reads requests: bodies of JSON, queries and headers.

mod body;
mod checked;
mod options;
mod query;
mod text_value;

pub use body::read_body;
pub use checked::CheckedRequest;
pub use options::merge_option_headers;
pub use query::{QueryPair, read_query};
