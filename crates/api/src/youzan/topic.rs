//! Topics, which may have any characters, as names of queues, which may not.
//!
//! A topic that is the name of a queue has that queue. The queue of any other begins with [`ESCAPED`], followed by the
//! bytes of the topic: letters, digits and `-` as they are, others as `_` and two hexadecimal digits.

use std::borrow::Cow;
use std::fmt::Write;

use tidegate_core::QueueName;
use tidegate_core::limits::NAME_BYTES_MAX;

use super::error::YouzanError;

/// How the names of queues begin whose topics are not such names, or begin in the same way.
const ESCAPED: &str = "utf8-";
/// How much of a topic an error shows, in characters.
const SHOWN_CHARACTERS: usize = 64;

/// The queue of a topic. Spaces around it are dropped, as in the original.
///
/// # Errors
/// The topic is empty, has a comma, which separates topics, or is too long.
pub(super) fn queue_of(topic: &str) -> Result<QueueName, YouzanError> {
    let topic = topic.trim();
    let queue = match QueueName::try_from(topic) {
        Ok(queue) if !topic.starts_with(ESCAPED) => return Ok(queue),
        _ => QueueName::try_from(escape(topic).as_str()),
    };
    queue
        .ok()
        .filter(|_| !topic.is_empty() && !topic.contains(','))
        .ok_or_else(|| {
            let shown: String = topic.chars().take(SHOWN_CHARACTERS).collect();
            YouzanError::invalid(format!(
                "the topic {shown:?} must not be empty, have no comma, and be short enough: the name of its queue, in which \
                 bytes other than letters, digits and - take three, has at most {NAME_BYTES_MAX} bytes"
            ))
        })
}

pub(super) fn topic_of(queue: &QueueName) -> Cow<'_, str> {
    let name = queue.as_str();
    match name.strip_prefix(ESCAPED).and_then(unescape) {
        Some(topic) => Cow::Owned(topic),
        None => Cow::Borrowed(name),
    }
}

fn escape(topic: &str) -> String {
    let mut escaped = ESCAPED.to_owned();
    for byte in topic.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(escaped, "_{byte:02x}");
        }
    }
    escaped
}

fn unescape(escaped: &str) -> Option<String> {
    let mut pieces = escaped.split('_');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        bytes.push(u8::from_str_radix(piece.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_topic_that_is_the_name_of_a_queue_has_that_queue() {
        for (topic, queue) in [
            ("order", "order"),
            (" _a-B_9 ", "_a-B_9"),
            ("支付宝", "utf8-_e6_94_af_e4_bb_98_e5_ae_9d"),
            ("order.paid", "utf8-order_2epaid"),
            ("utf8-x", "utf8-utf8-x"),
        ] {
            let named = queue_of(topic).unwrap();
            assert_eq!(named.as_str(), queue);
            assert_eq!(topic_of(&named), topic.trim());
        }
    }

    #[test]
    fn a_topic_without_a_queue_is_refused() {
        for topic in ["", " ", "a,b", &"宝".repeat(28), &"x".repeat(256)] {
            let problem = queue_of(topic).unwrap_err().to_string();
            assert!(problem.starts_with("the topic "), "{problem}");
        }
        assert!(queue_of(&"宝".repeat(27)).is_ok());
    }

    /// Another API may have made such a queue.
    #[test]
    fn a_queue_that_no_topic_has_is_shown_as_it_is() {
        for name in ["utf8-_", "utf8-_zz", "utf8-_e6", "utf8-a_1"] {
            assert_eq!(topic_of(&name.try_into().unwrap()), name);
        }
    }

    proptest! {
        #[test]
        fn no_two_topics_have_the_same_queue(topic in "\\PC{1,20}|[a-z_.-]{1,20}|utf8-[a-z0-9_-]{0,9}") {
            if let Ok(queue) = queue_of(&topic) {
                prop_assert_eq!(topic_of(&queue), topic.trim());
            }
        }
    }
}
