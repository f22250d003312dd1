//! The kinds of facts.

use tidegate_core::v1::job::{FactCode, JobFact};
use tidegate_core::v1::values::Timestamp;

pub(super) fn plain(code: FactCode, text: &str) -> JobFact {
    JobFact {
        code,
        text: text.to_owned(),
        at: None,
        worker: None,
        count: None,
    }
}

pub(super) fn timed(code: FactCode, text: String, at_ms: u64) -> JobFact {
    JobFact {
        at: Some(Timestamp::saturating(at_ms)),
        ..plain(code, &text)
    }
}

pub(super) fn counted(code: FactCode, text: String, count: u64) -> JobFact {
    JobFact {
        count: Some(count),
        ..plain(code, &text)
    }
}
