//! Schedules, as the clients that set them see them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate::api::values::RunCount;
use tidegate::{BatchJob, Error, Overlap, Precondition, ProblemCode, Schedule, Task};

use crate::fixture::{LIMIT, SERVER, clients};

#[derive(Serialize, Deserialize)]
struct Digest {
    kind: String,
}

impl Task for Digest {
    const QUEUE: &'static str = "digests";
    type Reply = ();
}

fn digest() -> BatchJob {
    let kind = "digest".to_owned();
    BatchJob::of(&Digest { kind })
}

fn daily() -> Schedule {
    Schedule {
        cron: Some("0 9 * * MON-FRI".to_owned()),
        time_zone: Some("Europe/Berlin".to_owned()),
        ..digest().into_schedule().unwrap()
    }
}

fn code(refused: Result<impl std::fmt::Debug, Error>) -> Option<ProblemCode> {
    refused.unwrap_err().code()
}

fn runs(count: u64) -> RunCount {
    RunCount::try_from(count).unwrap()
}

#[tokio::test]
async fn a_schedule_is_set_shown_listed_and_deleted() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "schedules").await;
    let schedule = client.schedule("digest").unwrap();
    let created = schedule.set(&daily()).await.unwrap();
    assert_eq!(created.config, daily());
    assert_eq!(schedule.show().await.unwrap(), created);
    let next = schedule.next_runs(runs(3)).await.unwrap();
    assert_eq!((next.len(), Some(next[0])), (3, created.next_run));

    let later = Schedule {
        cron: Some("0 10 * * *".to_owned()),
        ..daily()
    };
    let replaced = schedule.set(&later).await.unwrap();
    assert_ne!(replaced.revision, created.revision);
    // More than a page of a list has.
    for number in 0..101 {
        let name = format!("a-{number:03}");
        client.schedule(&name).unwrap().set(&daily()).await.unwrap();
    }
    let listed = client.schedules().await.unwrap();
    assert_eq!((listed.len(), &listed[101]), (102, &replaced));

    schedule.delete().await.unwrap();
    let missing = Some(ProblemCode::ScheduleNotFound);
    assert_eq!(code(schedule.show().await), missing);
    assert_eq!(code(schedule.next_runs(runs(1)).await), missing);
    assert_eq!(code(schedule.set_paused(true).await), missing);
    assert_eq!(code(schedule.delete().await), missing);
}

#[tokio::test]
async fn a_change_is_made_if_the_schedule_is_as_required() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "schedule-conditions").await;
    let schedule = client.schedule("digest").unwrap();
    let mismatch = Some(ProblemCode::VersionMismatch);
    let set = async |condition| schedule.set_if(condition, &daily()).await;
    assert_eq!(code(set(Precondition::Exists).await), mismatch);
    let first = set(Precondition::Missing).await.unwrap();
    assert_eq!(code(set(Precondition::Missing).await), mismatch);
    set(Precondition::Exists).await.unwrap();
    let seen = Precondition::Is(first.revision.as_str());
    assert_eq!(code(set(seen).await), mismatch);
    assert_eq!(code(schedule.delete_if(seen).await), mismatch);
    let present = schedule.show().await.unwrap().revision;
    let seen = set(Precondition::Is(present.as_str())).await.unwrap();
    let seen = Precondition::Is(seen.revision.as_str());
    schedule.delete_if(seen).await.unwrap();
    let invalid = set(Precondition::Is("a\nb")).await.unwrap_err();
    assert!(matches!(invalid, Error::Invalid(_)), "{invalid}");
}

/// Two clients change a schedule at the same time: one pauses and resumes it, the other one sets its times.
#[tokio::test]
async fn a_pause_keeps_what_other_clients_set() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "schedule-pause").await;
    let schedule = client.schedule("digest").unwrap();
    let first = schedule.set(&daily()).await.unwrap();
    let resumed = schedule.set_paused(false).await.unwrap();
    assert_eq!(resumed.revision, first.revision, "nothing was changed");
    let paused = schedule.set_paused(true).await.unwrap();
    assert_eq!((paused.config.paused, paused.next_run), (true, None));
    assert!(schedule.next_runs(runs(1)).await.unwrap().is_empty());

    let other = schedule.clone();
    let pausing = tokio::spawn(async move {
        for number in 0..20 {
            other.set_paused(number % 2 == 0).await.unwrap();
        }
    });
    for hour in 0..20 {
        let cron = Some(format!("0 {hour} * * *"));
        loop {
            let seen = schedule.show().await.unwrap();
            let changed = Schedule {
                cron: cron.clone(),
                ..seen.config
            };
            let condition = Precondition::Is(seen.revision.as_str());
            match schedule.set_if(condition, &changed).await {
                Ok(_) => break,
                Err(error) => assert_eq!(error.code(), Some(ProblemCode::VersionMismatch)),
            }
        }
        let cron_now = schedule.show().await.unwrap().config.cron;
        assert_eq!(cron_now, cron, "a pause has undone it");
    }
    pausing.await.unwrap();
    assert!(!schedule.show().await.unwrap().config.paused);
}

#[tokio::test]
async fn the_job_of_a_schedule_is_published_with_its_options() {
    let stack = SERVER.acquire().await;
    let (client, native) = clients(&stack, "schedule-job").await;
    let job = digest()
        .attribute("tenant", "blue")
        .retain(Duration::from_secs(60))
        .max_attempts(4);
    let schedule = Schedule {
        every: Some("100ms".parse().unwrap()),
        overlap: Overlap::Allow,
        ..job.into_schedule().unwrap()
    };
    client
        .schedule("often")
        .unwrap()
        .set(&schedule)
        .await
        .unwrap();
    let jobs = tidegate_testkit::eventually("a job is published", LIMIT, async || {
        match native.reserve("digests", 1).await {
            jobs if jobs.is_empty() => Err("no job"),
            jobs => Ok(jobs),
        }
    })
    .await;
    client.schedule("often").unwrap().delete().await.unwrap();
    assert_eq!(jobs[0]["payload"], json!({"kind": "digest"}));
    assert_eq!(jobs[0]["attributes"]["tenant"], "blue");
    let queue = client.queue("digests").unwrap();
    let job = queue.job(jobs[0]["id"].as_str().unwrap()).unwrap();
    assert_eq!(job.show().await.unwrap().max_attempts, 4);
    let image = BatchJob::raw("q", *b"a\xff", "image/png");
    let image = image
        .into_schedule()
        .unwrap()
        .job
        .content
        .into_parts()
        .unwrap()
        .0;
    assert_eq!(
        (&*image.bytes, image.content_type.as_str()),
        (&b"a\xff"[..], "image/png")
    );
}

#[tokio::test]
async fn what_is_not_valid_is_named() {
    let stack = SERVER.acquire().await;
    let (client, _) = clients(&stack, "schedule-errors").await;
    let schedule = client.schedule("digest").unwrap();
    let field = async |schedule_of: Schedule| {
        let error = schedule.set(&schedule_of).await.unwrap_err();
        error.problem().unwrap().field.clone().unwrap()
    };
    let cron = Some("0 9 * *".to_owned());
    assert_eq!(field(Schedule { cron, ..daily() }).await, "cron");
    let time_zone = Some("Mars/Olympus".to_owned());
    assert_eq!(
        field(Schedule {
            time_zone,
            ..daily()
        })
        .await,
        "time_zone"
    );
    assert_eq!(field(digest().into_schedule().unwrap()).await, "cron");
    for (job, option) in [
        (digest().key("k"), "job.key"),
        (digest().idempotent(), "job.idempotency_key"),
    ] {
        let error = job.into_schedule().unwrap_err();
        let Error::Invalid(invalid) = error else {
            panic!("{error}");
        };
        assert_eq!(invalid.field.as_deref(), Some(option));
    }
    assert!(matches!(client.schedule("a b"), Err(Error::Invalid(_))));
}
