//! Leases as clients get them: opaque to them, they name queue, id and attempt. They are no secrets: a client
//! may do the same with every lease of its namespace.

use tidegate_core::v1::values::LeaseText;
use tidegate_core::{Namespace, QueueKey, QueueName};
use tidegate_store::LeasedJob;

/// Names of queues and ids do not have this character.
const SEPARATOR: char = '.';
/// Follows the attempt if the delivery is traced.
const TRACED: char = 't';

/// The contents of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParsedLease {
    pub(super) queue: QueueKey,
    pub(super) job: LeasedJob,
    /// Whether its delivery has a span.
    pub(super) is_traced: bool,
}

pub(super) fn lease_text(queue: &QueueKey, job: LeasedJob, is_traced: bool) -> String {
    let LeasedJob { id, attempt } = job;
    let name = &queue.queue;
    match is_traced {
        true => format!("{id}{SEPARATOR}{attempt}{TRACED}{SEPARATOR}{name}"),
        false => format!("{id}{SEPARATOR}{attempt}{SEPARATOR}{name}"),
    }
}

/// The contents of a lease; `None` if no server has made this text. A lease of another namespace names no job of this
/// namespace.
pub(super) fn parse_lease(namespace: &Namespace, lease: &LeaseText) -> Option<ParsedLease> {
    let mut parts = lease.as_str().splitn(3, SEPARATOR);
    let (id, attempt, queue) = (parts.next()?, parts.next()?, parts.next()?);
    let (attempt, is_traced) = match attempt.strip_suffix(TRACED) {
        Some(attempt) => (attempt, true),
        None => (attempt, false),
    };
    let is_plain = attempt.bytes().all(|byte| byte.is_ascii_digit());
    let job = LeasedJob {
        id: id.parse().ok()?,
        attempt: attempt.parse().ok().filter(|it| is_plain && *it > 0)?,
    };
    let queue = QueueKey {
        namespace: namespace.clone(),
        queue: QueueName::try_from(queue).ok()?,
    };
    Some(ParsedLease {
        queue,
        job,
        is_traced,
    })
}

#[cfg(test)]
mod tests {
    use tidegate_core::JobId;

    use super::*;

    #[test]
    fn leases_are_read_as_they_were_written() {
        let queue = QueueKey::try_from("shop/close-unpaid_2").unwrap();
        let job = LeasedJob {
            id: JobId::new(1_770_000_000_000, 17, 1_000_001, 65_535),
            attempt: u32::MAX,
        };
        for is_traced in [false, true] {
            let lease = lease_text(&queue, job, is_traced).parse().unwrap();
            let expected = ParsedLease {
                queue: queue.clone(),
                job,
                is_traced,
            };
            assert_eq!(parse_lease(&queue.namespace, &lease), Some(expected));
        }
        let text = lease_text(&queue, job, false);
        let longest = QueueKey::try_from(format!("n/{}", "q".repeat(255)).as_str()).unwrap();
        assert!(lease_text(&longest, job, true).parse::<LeaseText>().is_ok());
        for bad in [
            text.replace('.', "-"),
            text.replace("4294967295", "0"),
            text.replace("4294967295", "+1"),
            text.replace("4294967295", "t"),
            text.replace("4294967295", "1tt"),
            text.replace("4294967295", "4294967296"),
            text.to_lowercase().replace('0', "!"),
            text[1..].to_owned(),
            format!("{text}."),
            format!("{text} "),
        ] {
            let lease: Option<LeaseText> = bad.parse().ok();
            let parsed = lease.and_then(|lease| parse_lease(&queue.namespace, &lease));
            assert_eq!(parsed, None, "{bad}");
        }
    }
}
