//! The names of queues.

pub(crate) fn queue_name(number: u16) -> String {
    format!("q{number}")
}

/// Returns the number of the queue with this name; `u16::MAX` if there is none.
pub(super) fn queue_number(name: &str) -> u16 {
    let number = name.strip_prefix('q');
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or(u16::MAX)
}
