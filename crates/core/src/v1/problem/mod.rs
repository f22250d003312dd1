//! Problems: what every answer other than a success says, and why a request is invalid.

mod code;
mod document;
mod invalid;

pub use code::{Applied, ProblemCode, ProblemInfo};
pub use document::Problem;
pub use invalid::{InvalidRequest, InvalidValue};
