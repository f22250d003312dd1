//! Bounds the memory for answers to consumes that clients have not read yet.

use bytes::Bytes;
use tidegate_service::metrics::OVER_BUDGET;
use tidegate_service::{ByteBudget, ByteShare};

use tidegate_engine::Delivery;

/// Answers up to this length are not counted, so that clients that do not read large answers do not affect consumers of
/// small jobs.
const UNCOUNTED_BYTES: usize = 64 * 1024;

/// Keeps the jobs that fit into the budget, at least one, and releases the others. Returns the share of the answer.
pub(crate) fn fit_to_budget(delivery: &mut Delivery, budget: &ByteBudget) -> ByteShare {
    let mut share = budget.share();
    let mut bytes = 0;
    let mut kept = 0;
    for reserved in delivery.jobs() {
        bytes += answer_bytes(reserved.job.body.len());
        let has_room = bytes <= UNCOUNTED_BYTES || share.grow_to(bytes).is_ok();
        if !has_room && kept > 0 {
            OVER_BUDGET.with_label_values(&["answer"]).inc();
            break;
        }
        kept += 1;
    }
    delivery.truncate(kept);
    share
}

/// Bytes of a body and of its base64 in the answer: both exist while the answer is made.
const fn answer_bytes(body_bytes: usize) -> usize {
    body_bytes + body_bytes.div_ceil(3) * 4
}

/// The text of an answer, counted until it is dropped: until all of it is written to the connection.
pub(crate) fn into_counted(text: Vec<u8>, mut share: ByteShare) -> Bytes {
    if text.len() <= UNCOUNTED_BYTES {
        return text.into();
    }
    share.shrink_to(text.len());
    Bytes::from_owner(CountedText {
        text,
        _share: share,
    })
}

struct CountedText {
    text: Vec<u8>,
    _share: ByteShare,
}

impl AsRef<[u8]> for CountedText {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_holds_its_share_until_it_is_dropped() {
        let budget = ByteBudget::new(1_000_000);
        let mut share = budget.share();
        share.grow_to(700_000).unwrap();
        let text = into_counted(vec![b'x'; 400_000], share);
        let part = text.slice(100..200);
        assert_eq!(budget.used(), 400_000);
        drop(text);
        assert_eq!(budget.used(), 400_000);
        drop(part);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_body_and_its_base64_are_counted() {
        assert_eq!(answer_bytes(0), 0);
        assert_eq!(answer_bytes(3), 7);
        assert_eq!(answer_bytes(4), 12);
    }
}
