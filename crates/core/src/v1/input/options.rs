//! Options of a publish in headers.

use super::query::QueryPair;
use crate::v1::problem::{InvalidRequest, ProblemCode};

/// The beginning of headers with options, in lower case: `Tidegate-Run-At` is the option `run_at`.
const HEADER_PREFIX: &str = "tidegate-";
/// The header of an option that has a name of its own on the web.
const IDEMPOTENCY_HEADER: &str = "idempotency-key";
const IDEMPOTENCY_OPTION: &str = "idempotency_key";

/// Adds the options in headers to the options in the query. Other headers are ignored.
///
/// # Errors
/// An option is in the query and in a header, or a header is repeated or not UTF-8.
pub fn merge_option_headers<'a>(
    query: Vec<QueryPair<'a>>,
    headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<Vec<QueryPair<'a>>, InvalidRequest> {
    let in_query = query.len();
    let mut options = query;
    for (header, value) in headers {
        let Some(name) = option_name(header) else {
            continue;
        };
        match options.iter().position(|(other, _)| *other == name) {
            None => {}
            Some(position) if position < in_query => {
                let detail =
                    format!("{name} is in the query and in the header {header}; send one of them");
                return Err(InvalidRequest::of_field(name, detail));
            }
            Some(_) => {
                let detail = format!("the header {header} is there twice; send it once");
                return Err(InvalidRequest::of_field(name, detail));
            }
        }
        let Ok(value) = std::str::from_utf8(value) else {
            let detail = format!("the header {header} is not UTF-8");
            return Err(InvalidRequest::new(ProblemCode::InvalidParameter, detail).at(name));
        };
        options.push((name.into(), value.trim_ascii().into()));
    }
    Ok(options)
}

/// Whether this header, in lower case, has an option of a publish.
pub fn is_option_header(header: &str) -> bool {
    option_name(header).is_some()
}

/// The option in a header, if it has one.
fn option_name(header: &str) -> Option<String> {
    if header.eq_ignore_ascii_case(IDEMPOTENCY_HEADER) {
        return Some(IDEMPOTENCY_OPTION.to_owned());
    }
    let header = header.to_ascii_lowercase();
    let name = header.strip_prefix(HEADER_PREFIX)?;
    Some(name.replace('-', "_"))
}
