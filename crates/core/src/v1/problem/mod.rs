//! Problems: the content of every answer other than a success, and the reasons why a request is invalid.

mod code;
mod document;
mod invalid;

pub use code::{Applied, ProblemCode, ProblemInfo};
pub use document::Problem;
pub use invalid::{InvalidRequest, InvalidValue};
