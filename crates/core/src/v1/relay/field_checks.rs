//! Checks of single fields.

use super::secret::SecretText;
use crate::limits::RELAY_TEXT_BYTES_MAX;
use crate::v1::problem::InvalidRequest;
use crate::{Namespace, QueueName};

/// A text of bounded length without control characters; it may be empty. It may be a secret and is not repeated.
pub(super) fn check_text(field: &str, text: &str, bytes_max: usize) -> Result<(), InvalidRequest> {
    if text.len() <= bytes_max && !text.chars().any(char::is_control) {
        return Ok(());
    }
    let detail = format!("{field} must have at most {bytes_max} bytes, and no control characters");
    Err(InvalidRequest::of_field(field, detail))
}

pub(super) fn check_queue(queue: &str) -> Result<(), InvalidRequest> {
    let checked = queue.parse::<QueueName>().map(drop);
    checked.map_err(|invalid| InvalidRequest::from(invalid).at("queue"))
}

pub(super) fn check_names(namespace: &str, queue: &str) -> Result<(), InvalidRequest> {
    let checked = namespace.parse::<Namespace>().map(drop);
    checked.map_err(|invalid| InvalidRequest::from(invalid).at("namespace"))?;
    check_queue(queue)
}

/// A key or token, which a header has.
pub(super) fn check_token(field: &str, token: &SecretText) -> Result<(), InvalidRequest> {
    let problem = |detail| Err(InvalidRequest::of_field(field, detail));
    let text = token.as_str();
    if text.is_empty() {
        return problem(format!("{field} is missing"));
    }
    if text.len() > RELAY_TEXT_BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return problem(format!(
            "{field} must have at most {RELAY_TEXT_BYTES_MAX} characters of ASCII, without spaces"
        ));
    }
    Ok(())
}
