//! Lists show attributes and the lengths of bodies, and read only the beginnings of large ones.

use std::io::Write;

use bytes::Bytes;
use tidegate_core::{Attributes, JobState, NewJob};
use tidegate_store::{JobSelection, LIST_HINTS_MAX, ListedJob};
use tidegate_testkit::print_figure;

use super::{StoreFixture, fixture, in_states, publish_all, script_calls, walk};
use crate::fixture::START;
use crate::outside_bodies::sized;

fn ready_with_attributes() -> JobSelection {
    JobSelection {
        with_attributes: true,
        ..in_states(&[JobState::Ready])
    }
}

/// A job whose body can be compressed a little.
fn compressible(bytes: usize) -> NewJob {
    let mut body = Vec::new();
    for number in 0_u64.. {
        if body.len() >= bytes {
            break;
        }
        writeln!(
            body,
            "{:016x} order",
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        )
        .unwrap();
    }
    body.truncate(bytes);
    NewJob {
        body: Bytes::from(body),
        ..sized(0)
    }
}

/// Attributes of so many bytes, which cannot be compressed.
fn attributes(bytes: usize) -> Attributes {
    let value = |bytes: usize| {
        let letters = (0..bytes).map(|_| char::from(rand::random_range(b'!'..=b'~')));
        letters.collect::<String>()
    };
    let parts = (0..bytes.div_ceil(1000)).map(|at| (format!("a{at}"), value(bytes.min(1000))));
    parts.collect()
}

/// How many bytes Redis has sent.
fn sent_bytes(f: &StoreFixture) -> u64 {
    let mut info = redis::cmd("INFO");
    let stats: String = info.arg("stats").query(&mut f.connection()).unwrap();
    let lines = stats.lines();
    let mut found = lines.filter_map(|line| line.strip_prefix("total_net_output_bytes:"));
    found.next().unwrap().trim().parse().unwrap()
}

#[track_caller]
fn assert_shown(listed: &[ListedJob], jobs: &[NewJob]) {
    assert_eq!(listed.len(), jobs.len());
    for (listed, published) in listed.iter().zip(jobs) {
        assert!(!listed.is_damaged);
        assert_eq!(listed.job.attributes, published.attributes);
        assert_eq!(listed.body_bytes, published.body.len() as u64);
        assert!(listed.job.body.is_empty());
    }
}

#[tokio::test]
async fn attributes_and_lengths_are_read_if_requested_and_damage_is_marked() {
    let f = fixture().await;
    let mut jobs = Vec::new();
    for bytes in [0, 10, 600, 700, 3000, 40_000, 200_000] {
        for attribute_bytes in [0, 20, 600, 30_000] {
            for job in [sized(bytes), compressible(bytes)] {
                jobs.push(NewJob {
                    attributes: attributes(attribute_bytes),
                    ..job
                });
            }
        }
    }
    for jobs in jobs.chunks(10) {
        publish_all(&f.store.at(START), &f.queue, jobs).await;
    }
    let store = f.store.at(START);
    let without = walk(&f, &store, &in_states(&[JobState::Ready]), LIST_HINTS_MAX).await;
    assert_eq!(without.len(), jobs.len());
    let has_none = |it: &ListedJob| it.job.attributes.is_empty() && it.body_bytes == 0;
    assert!(without.iter().all(has_none));
    for hints in [1, 7, LIST_HINTS_MAX] {
        let with = walk(&f, &store, &ready_with_attributes(), hints).await;
        assert_shown(&with, &jobs);
    }

    // The beginning of one body is damaged, another one is missing.
    let body = |job: &ListedJob| format!("tg:0:{{8209}}:body:{}", job.job.id.number());
    let (damaged, missing) = (jobs.len() - 1, jobs.len() - 8);
    let mut set = redis::cmd("SETRANGE");
    set.arg(body(&without[damaged]))
        .arg(0)
        .arg(vec![0xff_u8; 100_000]);
    set.exec(&mut f.connection()).unwrap();
    let mut delete = redis::cmd("DEL");
    let deleted: u64 = delete
        .arg(body(&without[missing]))
        .query(&mut f.connection())
        .unwrap();
    assert_eq!(deleted, 1);
    let listed = walk(&f, &store, &ready_with_attributes(), LIST_HINTS_MAX).await;
    let marked = (0..listed.len()).filter(|at| listed[*at].is_damaged);
    assert_eq!(marked.collect::<Vec<_>>(), [missing, damaged]);
}

/// A page with 100 bodies of 200 kB each, of both kinds, with few and with many attributes.
#[tokio::test]
async fn a_page_with_large_bodies_does_not_move_them() {
    const BODY_BYTES: usize = 200_000;
    for (attribute_bytes, sent_max) in [(100, 1_000_000), (2_000, 1_000_000)] {
        let f = fixture().await;
        let jobs: Vec<NewJob> = (0..LIST_HINTS_MAX)
            .map(|number| NewJob {
                attributes: attributes(attribute_bytes),
                ..match number % 2 {
                    0 => sized(BODY_BYTES),
                    _ => compressible(BODY_BYTES),
                }
            })
            .collect();
        for jobs in jobs.chunks(10) {
            publish_all(&f.store.at(START), &f.queue, jobs).await;
        }
        let store = f.store.at(START);
        let mut reset = redis::cmd("CONFIG");
        reset.arg("RESETSTAT").exec(&mut f.connection()).unwrap();
        let before = sent_bytes(&f);
        let listed = walk(&f, &store, &ready_with_attributes(), LIST_HINTS_MAX).await;
        let sent = sent_bytes(&f) - before;
        let (calls, spent_us) = script_calls(&f);
        assert_shown(&listed, &jobs);
        print_figure(&format!(
            "Redis sends {sent} bytes for a list of {LIST_HINTS_MAX} jobs, each with {attribute_bytes} bytes of attributes and a body of \
             {BODY_BYTES}; {calls} calls of list_jobs hold it for {spent_us:.0} µs each"
        ));
        assert!(sent < sent_max, "{sent}");
    }
}
