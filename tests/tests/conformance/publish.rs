//! `PUT /api/:namespace/:queue`

use crate::session::{play, session};

#[tokio::test]
async fn a_job_is_published_and_delivered_byte_for_byte() {
    play(
        r#"
        > PUT /api/$ns/$q
        | hello
        < 201 {"job_id":"$id:a","msg":"published"}

        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"aGVsbG8=","elapsed_ms":$int:0-5000,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}

        # an empty body is a job too
        > PUT /api/$ns/$q?ttl=0&tries=65535
        < 201 {"job_id":"$id:b","msg":"published"}
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"","elapsed_ms":$int:0-5000,"job_id":"$b","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":65534,"ttl":0}
        "#,
    )
    .await;
}

#[tokio::test]
async fn any_bytes_are_delivered_unchanged() {
    let session = session().await;
    let queue = session.queue("bytes");
    let all_bytes: Vec<u8> = (0..=255).collect();
    let bodies = [
        vec![0],
        vec![255, 254],
        b"\r\n\r\n".to_vec(),
        all_bytes.repeat(3),
        b"x".repeat(100_000),
    ];
    for body in &bodies {
        queue.publish(body.clone()).id().await;
    }
    for body in &bodies {
        assert_eq!(queue.consume().job().await.unwrap().body, *body);
    }
    session.target.check().await;
}

#[tokio::test]
async fn the_content_type_and_encoding_of_a_request_are_ignored() {
    play(
        r#"
        > PUT /api/$ns/$q
        + Content-Type: application/x-www-form-urlencoded
        + Content-Encoding: gzip
        | a=1&delay=5
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"YT0xJmRlbGF5PTU=","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        "#,
    )
    .await;
}

/// Any text that is not a number in the range of the parameter is refused, also an empty one.
#[tokio::test]
async fn numbers_are_plain_decimal_digits_in_range() {
    let mut session = session().await;
    let bad = [
        "", "%2B1", "+1", "-1", "1.5", "0x1", "1_0", "abc", "%201", "1%20", "1e3", "%D9%A1",
    ];
    for (name, too_large) in [
        ("delay", "4294967296"),
        ("ttl", "4294967296"),
        ("tries", "65536"),
    ] {
        for value in bad
            .into_iter()
            .chain([too_large, "99999999999999999999999"])
        {
            let row =
                format!("> PUT /api/$ns/$q?{name}={value}\n< 400 {{\"error\":\"invalid {name}\"}}");
            session.play(&row).await;
        }
        let row = format!("> PUT /api/$ns/$q?{name}\n< 400 {{\"error\":\"invalid {name}\"}}");
        session.play(&row).await;
    }
    session
        .play(
            r#"
        > GET /api/$ns/$q/size
        < 200 {"namespace":"$ns","queue":"$q","size":0}
    "#,
        )
        .await;
}

#[tokio::test]
async fn the_ends_of_every_range_are_accepted() {
    play(
        r#"
        > PUT /api/$ns/$q?delay=0&ttl=0&tries=1
        < 201 {"job_id":"$id:a","msg":"published"}
        > PUT /api/$ns/$q?delay=4294967295&ttl=0&tries=65535
        < 201 {"job_id":"$id:b","msg":"published"}
        > PUT /api/$ns/$q?delay=4294967295&ttl=4294967295
        < 201 {"job_id":"$id:c","msg":"published"}
        > PUT /api/$ns/$q?ttl=4294967295
        < 201 {"job_id":"$id:d","msg":"published"}
        > GET /api/$ns/$q/job/$d
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$d","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:4294967295}
        # leading zeros are allowed
        > PUT /api/$ns/$q?delay=000&ttl=010&tries=0002
        < 201 {"job_id":"$id:e","msg":"published"}
        > GET /api/$ns/$q/job/$e
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$e","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:10}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_ttl_shorter_than_the_delay_is_refused() {
    play(
        r#"
        > PUT /api/$ns/$q?delay=2&ttl=1
        < 400 {"error":"ttl is shorter than delay"}
        # the default time to live counts
        > PUT /api/$ns/$q?delay=90000
        < 400 {"error":"ttl is shorter than delay"}
        > PUT /api/$ns/$q?delay=86401
        < 400 {"error":"ttl is shorter than delay"}
        > PUT /api/$ns/$q?delay=86400
        < 201 {"job_id":"$id:a","msg":"published"}
        > PUT /api/$ns/$q?delay=5&ttl=5
        < 201 {"job_id":"$id:b","msg":"published"}
        > PUT /api/$ns/$q?delay=90000&ttl=0
        < 201 {"job_id":"$id:c","msg":"published"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn zero_tries_are_refused() {
    play(
        r#"
        > PUT /api/$ns/$q?tries=0
        < 400 {"error":"tries shouldn't be zero"}
        > PUT /api/$ns/$q?tries=00
        < 400 {"error":"tries shouldn't be zero"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn parameters_are_checked_in_order_delay_ttl_relation_tries() {
    play(
        r#"
        > PUT /api/$ns/$q?tries=x&ttl=x&delay=x
        < 400 {"error":"invalid delay"}
        > PUT /api/$ns/$q?tries=x&ttl=x&delay=1
        < 400 {"error":"invalid ttl"}
        > PUT /api/$ns/$q?tries=x&ttl=1&delay=2
        < 400 {"error":"ttl is shorter than delay"}
        > PUT /api/$ns/$q?tries=0&ttl=1&delay=2
        < 400 {"error":"ttl is shorter than delay"}
        > PUT /api/$ns/$q?tries=x&ttl=2&delay=1
        < 400 {"error":"invalid tries"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn ids_are_unique_and_sort_by_time() {
    let session = session().await;
    let queue = session.queue("ids");
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(queue.publish("x").id().await);
    }
    let mut sorted = ids.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), ids.len());
    let time = |id: &String| id[..10].to_owned();
    assert!(ids.iter().map(time).is_sorted(), "{ids:?}");
}

#[tokio::test]
async fn a_job_id_can_be_the_name_of_a_queue() {
    play(
        r#"
        > PUT /api/$ns/$q
        < 201 {"job_id":"$id:a","msg":"published"}
        > PUT /api/$ns/$a
        | reply
        < 201 {"job_id":"$id:b","msg":"published"}
        > GET /api/$ns/$a
        < 200 {"attributes":null,"data":"cmVwbHk=","elapsed_ms":$int,"job_id":"$b","msg":"new job","namespace":"$ns","queue":"$a","remain_tries":0,"ttl":$ttl:86400}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_body_has_at_most_1_mib() {
    const MIB: usize = 1024 * 1024;
    let session = session().await;
    let queue = session.queue("large");
    let id = queue.publish(vec![b'x'; MIB]).id().await;
    let large = queue.publish(vec![b'x'; MIB + 1]).send().await.unwrap();
    assert_eq!(large.expect(413).text(), r#"{"error":"body too large"}"#);
    // The parameters are checked first.
    let bad = queue.publish(vec![b'x'; MIB + 1]).delay_s(u64::MAX);
    let bad = bad.send().await.unwrap().expect(400);
    assert_eq!(bad.text(), r#"{"error":"invalid delay"}"#);
    let job = queue.consume().job().await.unwrap();
    assert_eq!((job.id, job.body.len()), (id, MIB));
    assert!(queue.consume().job().await.is_none());
    session.target.check().await;
}

/// The standard alphabet, padded; not the one for URLs.
#[tokio::test]
async fn data_is_base_64_with_plus_slash_and_padding() {
    play(
        r#"
        > PUT /api/$ns/$q
        | >>>???>
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q/peek?count=x&ttr=x
        < 200 {"attributes":null,"data":"Pj4+Pz8/Pg==","elapsed_ms":$int,"job_id":"$a","namespace":"$ns","queue":"$q","remain_tries":1,"ttl":$ttl:86400}
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"Pj4+Pz8/Pg==","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        "#,
    )
    .await;
}
