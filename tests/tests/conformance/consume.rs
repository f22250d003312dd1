//! `GET /api/:namespace/:queue` without waiting. `consume_waits` has the rest.

use std::time::Duration;

use tidegate_testkit::eventually;

use crate::session::{play, session};
use crate::target::better;

#[tokio::test]
async fn parameters_are_checked_in_order_ttr_timeout_count_names() {
    play(
        r#"
        > GET /api/$ns/,?ttr=x&timeout=x&count=x
        < 400 {"error":"invalid ttr"}
        > GET /api/$ns/,?timeout=x&count=x
        < 400 {"error":"invalid timeout"}
        > GET /api/$ns/,?count=x
        < 400 {"error":"invalid count"}
        > GET /api/$ns/,
        < 400 {"error":"invalid queue name(s)"}
        > GET /api/$ns/,,,?timeout=1
        < 400 {"error":"invalid queue name(s)"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn numbers_are_plain_decimal_digits_in_range() {
    let mut session = session().await;
    let bad = [
        "",
        "%2B1",
        "-1",
        "1.5",
        "0x1",
        "1_0",
        "abc",
        "%201",
        "99999999999999999999999",
    ];
    let per_name: [(&str, &[&str]); 3] = [
        ("ttr", &["4294967296"]),
        ("timeout", &["4294967296"]),
        ("count", &["0", "00", "101", "4294967296"]),
    ];
    for (name, more) in per_name {
        for value in bad.iter().chain(more) {
            let row =
                format!("> GET /api/$ns/$q?{name}={value}\n< 400 {{\"error\":\"invalid {name}\"}}");
            session.play(&row).await;
        }
        let row = format!("> GET /api/$ns/$q?{name}\n< 400 {{\"error\":\"invalid {name}\"}}");
        session.play(&row).await;
    }
}

#[tokio::test]
async fn the_ends_of_every_range_are_accepted() {
    let mut session = session().await;
    let queries = [
        "ttr=0",
        "ttr=4294967295",
        "timeout=0",
        "timeout=4294967295",
        "count=1",
        "ttr=007&timeout=00&count=001",
    ];
    for query in queries {
        let rows = format!(
            r#"
            > PUT /api/$ns/$q
            < 201 {{"job_id":"$id:a","msg":"published"}}
            > GET /api/$ns/$q?{query}
            < 200 {{"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}}
            > DELETE /api/$ns/$q/job/$a
            < 204
            "#
        );
        session.play(&rows).await;
    }
    session
        .play("> GET /api/$ns/$q?count=100\n< 404 {\"msg\":\"no job available\"}")
        .await;
    session.target.check().await;
}

#[tokio::test]
async fn freeze_tries_and_unknown_parameters_are_ignored() {
    play(
        r#"
        > PUT /api/$ns/$q?tries=5
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q?freeze_tries=true&ttr=0
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":4,"ttl":$ttl:86400}
        > GET /api/$ns/$q?freeze_tries=nonsense&timeout=3&more=1
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":3,"ttl":$ttl:86400}
        "#,
    )
    .await;
}

#[tokio::test]
async fn one_job_is_an_object_several_are_an_array() {
    play(
        r#"
        > PUT /api/$ns/$q/bulk
        | [1,2,3,4]
        < 201 {"job_ids":["$id:a","$id:b","$id:c","$id:d"],"msg":"published"}
        > GET /api/$ns/$q?count=1
        < 200 {"attributes":null,"data":"MQ==","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        > GET /api/$ns/$q?count=2
        < 200 [{"attributes":null,"data":"Mg==","elapsed_ms":$int,"job_id":"$b","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400},{"attributes":null,"data":"Mw==","elapsed_ms":$int,"job_id":"$c","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}]
        > GET /api/$ns/$q?count=100&timeout=5
        < 200 [{"attributes":null,"data":"NA==","elapsed_ms":$int,"job_id":"$d","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}]
        > GET /api/$ns/$q?count=2
        < 404 {"msg":"no job available"}
        > GET /api/$ns/$q
        < 404 {"msg":"no job available"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn jobs_come_in_the_order_in_which_they_were_published() {
    let session = session().await;
    let queue = session.queue("fifo");
    let mut ids = Vec::new();
    for number in 0..150 {
        ids.push(queue.publish(number.to_string()).id().await);
    }
    let mut found = Vec::new();
    for count in [1, 2, 7, 1, 100, 1, 100] {
        let jobs = queue.consume().count(count).jobs().await;
        found.extend(jobs.into_iter().map(|job| job.id));
    }
    assert_eq!(found, ids);
    session.target.check().await;
}

#[tokio::test]
async fn a_queue_named_earlier_comes_first() {
    let session = session().await;
    let (a, b, c) = (session.queue("a"), session.queue("b"), session.queue("c"));
    for (queue, text) in [(&c, "c1"), (&b, "b1"), (&a, "a1"), (&b, "b2"), (&a, "a2")] {
        queue.publish(text).id().await;
    }
    let mut found = Vec::new();
    for names in [["b", "a"], ["b", "a"], ["b", "a"], ["c", "a"], ["c", "a"]] {
        let job = a.consume_from(&names).job().await.unwrap();
        assert_eq!(job.text()[..1], job.queue);
        found.push(job.text());
    }
    assert_eq!(found, ["b1", "b2", "a1", "c1", "a2"]);
    assert!(a.consume_from(&["a", "b", "c"]).job().await.is_none());
}

#[tokio::test]
async fn a_batch_takes_from_several_queues_in_order_of_priority() {
    let session = session().await;
    let (a, b) = (session.queue("a"), session.queue("b"));
    for text in ["a1", "a2"] {
        a.publish(text).id().await;
    }
    for text in ["b1", "b2"] {
        b.publish(text).id().await;
    }
    let jobs = a.consume_from(&["b", "nobody", "a"]).count(3).jobs().await;
    let texts: Vec<String> = jobs.iter().map(|job| job.text()).collect();
    assert_eq!(texts, ["b1", "b2", "a1"]);
    assert_eq!(a.consume().job().await.unwrap().text(), "a2");
    session.target.check().await;
}

#[tokio::test]
async fn a_list_of_queues_may_be_long_repeat_names_and_have_gaps() {
    let mut session = session().await;
    let many: Vec<String> = (0..200).map(|number| format!("queue-{number}")).collect();
    session.set("many", &many.join(","));
    session
        .play(
            r#"
            > PUT /api/$ns/queue-199/bulk
            | [1,2,3,4]
            < 201 {"job_ids":["$id:a","$id:b","$id:c","$id:d"],"msg":"published"}
            > GET /api/$ns/$many
            < 200 {"attributes":null,"data":"MQ==","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"queue-199","remain_tries":0,"ttl":$int}
            > GET /api/$ns/queue-199,queue-199?count=2
            < 200 [{"attributes":null,"data":"Mg==","elapsed_ms":$int,"job_id":"$b","msg":"new job","namespace":"$ns","queue":"queue-199","remain_tries":0,"ttl":$int},{"attributes":null,"data":"Mw==","elapsed_ms":$int,"job_id":"$c","msg":"new job","namespace":"$ns","queue":"queue-199","remain_tries":0,"ttl":$int}]
            > GET /api/$ns/,,q2,,queue-199,?timeout=1
            < 200 {"attributes":null,"data":"NA==","elapsed_ms":$int,"job_id":"$d","msg":"new job","namespace":"$ns","queue":"queue-199","remain_tries":0,"ttl":$int}
            > GET /api/$ns/$many
            < 404 {"msg":"no job available"}
            # an encoded comma separates as well
            > PUT /api/$ns/q2
            < 201 {"job_id":"$id:e","msg":"published"}
            > GET /api/$ns/q1%2Cq2
            < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$e","msg":"new job","namespace":"$ns","queue":"q2","remain_tries":0,"ttl":$ttl:86400}
            "#,
        )
        .await;
}

#[tokio::test]
async fn deleted_jobs_are_skipped() {
    if !better("deleted jobs are skipped, also without waiting and in batches") {
        return;
    }
    let session = session().await;
    let queue = session.queue("deleted");
    let bodies: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let ids = queue.publish_bulk(&bodies).ids().await;
    for deleted in ids[..10].iter().chain(&ids[12..30]) {
        queue.ack(deleted).await;
    }
    assert_eq!(queue.size().await, 12);
    assert_eq!(queue.consume().job().await.unwrap().id, ids[10]);
    let jobs = queue.consume().count(3).jobs().await;
    let found: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(found, [&ids[11], &ids[30], &ids[31]]);
    for deleted in &ids[32..] {
        queue.ack(deleted).await;
    }
    assert!(queue.consume().job().await.is_none());
    session.target.check().await;
}

#[tokio::test]
async fn expired_jobs_are_skipped() {
    if !better("expired jobs are skipped, also without waiting and in batches") {
        return;
    }
    let session = session().await;
    let queue = session.queue("expired");
    for _ in 0..5 {
        queue.publish("short").ttl_s(1).id().await;
    }
    let last = queue.publish("short").ttl_s(1).id().await;
    let live = queue.publish("live").id().await;
    let gone = async || match queue.peek_job(&last).await.status {
        404 => Ok(()),
        status => Err(status),
    };
    eventually("the short jobs are gone", Duration::from_secs(5), gone).await;
    assert_eq!(queue.consume().job().await.unwrap().id, live);
    assert!(queue.consume().job().await.is_none());
    session.target.check().await;
}

#[tokio::test]
async fn tries_count_down_until_the_job_is_dead() {
    play(
        r#"
        > PUT /api/$ns/$q?tries=3
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q?ttr=0
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":2,"ttl":$ttl:86400}
        > GET /api/$ns/$q?ttr=0&timeout=2
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":1,"ttl":$ttl:86400}
        > GET /api/$ns/$q?ttr=0&timeout=2
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        > GET /api/$ns/$q/deadletter/size
        ~ 3s
        < 200 {"namespace":"$ns","queue":"$q","size":1}
        > GET /api/$ns/$q
        < 404 {"msg":"no job available"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_redelivered_job_joins_the_tail() {
    let session = session().await;
    let queue = session.queue("tail");
    queue.publish("first").tries(2).id().await;
    queue.publish("second").id().await;
    assert_eq!(
        queue.consume().ttr_s(0).job().await.unwrap().text(),
        "first"
    );
    let both = async || match queue.size().await {
        2 => Ok(()),
        size => Err(size),
    };
    eventually("the first is back", Duration::from_secs(5), both).await;
    assert_eq!(queue.consume().job().await.unwrap().text(), "second");
    assert_eq!(queue.consume().job().await.unwrap().text(), "first");
    session.target.check().await;
}

#[tokio::test]
async fn the_time_to_live_is_rounded_to_the_nearest_second() {
    let session = session().await;
    let queue = session.queue("ttl");
    let id = queue.publish("x").ttl_s(10).id().await;
    queue.consume().job().await.unwrap();
    // 10 s less the age, rounded: 9 is shown from an age of 0.5 s to one of 1.5 s.
    let mut ages_ms: [Vec<u64>; 2] = [vec![], vec![]];
    eventually("8 s are left", Duration::from_secs(5), async || {
        let shown = queue.peek_job(&id).await.expect(200).json();
        let (left, age_ms) = (
            shown["ttl"].as_u64().unwrap(),
            shown["elapsed_ms"].as_u64().unwrap(),
        );
        match left {
            9 | 10 => {
                ages_ms[10 - left as usize].push(age_ms);
                Err(left)
            }
            _ => Ok(()),
        }
    })
    .await;
    let [ten, nine] = ages_ms;
    // A server may read the time to live and the age one after the other.
    assert!(ten.iter().all(|age_ms| *age_ms <= 550), "{ten:?}");
    assert!(
        nine.iter().all(|age_ms| (450..=1550).contains(age_ms)),
        "{nine:?}"
    );
}

#[tokio::test]
async fn a_lease_lasts_as_long_as_requested() {
    if !better("a lease is never shorter than asked: time is counted in milliseconds") {
        return;
    }
    let session = session().await;
    let queue = session.queue("lease");
    queue.publish("x").tries(2).id().await;
    let first = queue.consume().ttr_s(1).job().await.unwrap();
    let second = queue.consume().timeout_s(5).job().await.unwrap();
    let after_ms = second.elapsed_ms - first.elapsed_ms;
    assert!(
        (999..=2000).contains(&after_ms),
        "came back after {after_ms} ms"
    );
    assert_eq!(second.id, first.id);
}
