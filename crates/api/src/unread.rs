//! Answers with many jobs: never more in memory together than allowed, until their clients have read them.

use bytes::Bytes;
use metrics::counter;
use tidegate_service::metrics::OVER_BUDGET;
use tidegate_service::{ByteBudget, ByteShare};

use crate::waiters::Delivery;

/// An answer up to this length is made however many others there are, so that consumers of small jobs do not suffer
/// from clients that take large ones and do not read.
const UNCOUNTED_BYTES: usize = 64 * 1024;

/// Keeps as many jobs as there is room for in an answer, at least one, and gives the others back. Returns the room that
/// the answer takes.
pub(crate) fn fit(delivery: &mut Delivery, budget: &ByteBudget) -> ByteShare {
    let mut share = budget.share();
    let mut bytes = 0;
    let mut kept = 0;
    for reserved in delivery.jobs() {
        bytes += bytes_in_the_making(reserved.job.body.len());
        let has_room = bytes <= UNCOUNTED_BYTES || share.grow_to(bytes).is_ok();
        if !has_room && kept > 0 {
            counter!(OVER_BUDGET, "what" => "answer").increment(1);
            break;
        }
        kept += 1;
    }
    delivery.truncate(kept);
    share
}

/// A body, and its base64 in the answer.
const fn bytes_in_the_making(body_bytes: usize) -> usize {
    body_bytes + body_bytes.div_ceil(3) * 4
}

/// The text of an answer whose jobs are not needed any more. It takes room until it is dropped: until it is written to
/// the connection as a whole.
pub(crate) fn written(text: Vec<u8>, mut share: ByteShare) -> Bytes {
    if text.len() <= UNCOUNTED_BYTES {
        return text.into();
    }
    share.shrink_to(text.len());
    Bytes::from_owner(Counted {
        text,
        _share: share,
    })
}

struct Counted {
    text: Vec<u8>,
    _share: ByteShare,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_takes_its_room_until_it_is_dropped() {
        let budget = ByteBudget::new(1_000_000);
        let mut share = budget.share();
        share.grow_to(700_000).unwrap();
        let text = written(vec![b'x'; 400_000], share);
        let part = text.slice(100..200);
        assert_eq!(budget.used(), 400_000);
        drop(text);
        assert_eq!(budget.used(), 400_000);
        drop(part);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_body_and_its_base64_are_counted() {
        assert_eq!(bytes_in_the_making(0), 0);
        assert_eq!(bytes_in_the_making(3), 7);
        assert_eq!(bytes_in_the_making(4), 12);
    }
}
