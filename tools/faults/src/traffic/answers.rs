//! Converts answers to outcomes of a history.

use tidegate_core::JobId;
use tidegate_testkit::{Answer, ReceivedJob};

use super::payload::number_of;
use super::shared::queue_number;
use crate::history::{JobInAnswer, RequestOutcome};

const MS: u64 = 1000;
/// Length of an id without the leading digit of its versioned form.
const ID_LENGTH: usize = 26;

pub(super) fn published(answer: &Answer) -> RequestOutcome {
    let json = answer.json();
    let text = |id: &serde_json::Value| id.as_str().unwrap_or_default().to_owned();
    let ids = match json["job_ids"].as_array() {
        Some(ids) => ids.iter().map(text).collect(),
        None => vec![text(&json["job_id"])],
    };
    RequestOutcome::Published(ids)
}

pub(super) fn delivered(answer: &Answer) -> RequestOutcome {
    RequestOutcome::Delivered(jobs_in(answer).collect())
}

pub(super) fn peeked(answer: &Answer) -> RequestOutcome {
    RequestOutcome::Peeked(jobs_in(answer).next().map(Box::new))
}

pub(super) fn dead_letter(answer: &Answer) -> RequestOutcome {
    let json = answer.json();
    let head = json["deadletter_head"].as_str().unwrap_or_default();
    RequestOutcome::DeadLetter {
        head: (!head.is_empty()).then(|| head.to_owned()),
        size: json["deadletter_size"].as_u64().unwrap_or_default(),
    }
}

pub(super) fn respawned(answer: &Answer) -> RequestOutcome {
    RequestOutcome::Respawned(answer.json()["count"].as_u64().unwrap_or_default())
}

pub(super) const fn deleted(_: &Answer) -> RequestOutcome {
    RequestOutcome::Deleted
}

fn jobs_in(answer: &Answer) -> impl Iterator<Item = JobInAnswer> + use<> {
    let jobs = ReceivedJob::parse_all(answer).into_iter();
    jobs.map(|job| JobInAnswer {
        number: number_of(&job),
        queue: queue_number(&job.queue).unwrap_or(u16::MAX),
        tries_left: job.remain_tries,
        created: created_ms(&job.id) * MS,
        elapsed: job.elapsed_ms * MS,
        id: job.id,
    })
}

fn created_ms(id: &str) -> u64 {
    let bare = id.get(id.len().saturating_sub(ID_LENGTH)..);
    let id: Option<JobId> = bare.and_then(|bare| bare.parse().ok());
    id.map_or(0, JobId::created_at_ms)
}
