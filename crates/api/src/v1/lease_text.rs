//! Leases as clients get them: opaque to them, they name queue, id and attempt. They are no secrets: what a client may do
//! with a lease it may do with every lease of its namespace.

use tidegate_api_types::values::LeaseText;
use tidegate_core::{Namespace, QueueKey, QueueName};
use tidegate_store::LeasedJob;

/// Names of queues and ids do not have this character.
const SEPARATOR: char = '.';

/// The text of a lease.
pub(super) fn lease_text(queue: &QueueKey, job: LeasedJob) -> String {
    let LeasedJob { id, attempt } = job;
    format!("{id}{SEPARATOR}{attempt}{SEPARATOR}{}", queue.queue)
}

/// The queue and the job of a lease; `None` if no server has made this text. A lease of another namespace names no job
/// of this one.
pub(super) fn parse_lease(
    namespace: &Namespace,
    lease: &LeaseText,
) -> Option<(QueueKey, LeasedJob)> {
    let mut parts = lease.as_str().splitn(3, SEPARATOR);
    let (id, attempt, queue) = (parts.next()?, parts.next()?, parts.next()?);
    let is_plain = attempt.bytes().all(|byte| byte.is_ascii_digit());
    let job = LeasedJob {
        id: id.parse().ok()?,
        attempt: attempt.parse().ok().filter(|it| is_plain && *it > 0)?,
    };
    let queue = QueueKey {
        namespace: namespace.clone(),
        queue: QueueName::try_from(queue).ok()?,
    };
    Some((queue, job))
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
        let text = lease_text(&queue, job);
        let lease = text.parse().unwrap();
        assert_eq!(
            parse_lease(&queue.namespace, &lease),
            Some((queue.clone(), job))
        );
        let longest = QueueKey::try_from(format!("n/{}", "q".repeat(255)).as_str()).unwrap();
        assert!(lease_text(&longest, job).parse::<LeaseText>().is_ok());
        for bad in [
            text.replace('.', "-"),
            text.replace("4294967295", "0"),
            text.replace("4294967295", "+1"),
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
