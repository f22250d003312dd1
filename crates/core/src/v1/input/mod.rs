//! Reads requests: bodies of JSON, queries and headers.

mod body;
mod checked;
mod embedding;
mod object;
mod options;
mod query;
mod text_or_object;
mod text_value;

pub use body::read_body;
pub use checked::CheckedRequest;
pub(crate) use embedding::{OwnFields, embedding};
pub(crate) use object::{changed_object, object, objects, optional_object};
pub use options::{is_option_header, merge_option_headers};
pub use query::{QueryPair, read_query};
pub(crate) use text_or_object::{TextOrObject, text_or_object};
