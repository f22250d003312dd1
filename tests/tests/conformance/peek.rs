//! `GET /api/:namespace/:queue/peek` and `GET /api/:namespace/:queue/job/:job_id`

use crate::session::{Session, play, session};

#[tokio::test]
async fn the_head_of_the_queue_is_shown_and_stays() {
    play(
        r#"
        > GET /api/$ns/$q/peek
        < 404 {"error":"the queue is empty"}
        > PUT /api/$ns/$q?tries=3&ttl=50
        | first
        < 201 {"job_id":"$id:a","msg":"published"}
        > PUT /api/$ns/$q
        | second
        < 201 {"job_id":"$id:b","msg":"published"}
        > GET /api/$ns/$q/peek
        < 200 {"attributes":null,"data":"Zmlyc3Q=","elapsed_ms":$int:0-5000,"job_id":"$a","namespace":"$ns","queue":"$q","remain_tries":3,"ttl":$ttl:50}
        > GET /api/$ns/$q/peek
        < 200 {"attributes":null,"data":"Zmlyc3Q=","elapsed_ms":$int:0-5000,"job_id":"$a","namespace":"$ns","queue":"$q","remain_tries":3,"ttl":$ttl:50}
        > GET /api/$ns/$q/size
        < 200 {"namespace":"$ns","queue":"$q","size":2}
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"Zmlyc3Q=","elapsed_ms":$int:0-5000,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":2,"ttl":$ttl:50}
        > GET /api/$ns/$q/peek
        < 200 {"attributes":null,"data":"c2Vjb25k","elapsed_ms":$int:0-5000,"job_id":"$b","namespace":"$ns","queue":"$q","remain_tries":1,"ttl":$ttl:86400}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_deleted_head_is_skipped() {
    play(
        r#"
        > PUT /api/$ns/$q/bulk
        | [1,2,3]
        < 201 {"job_ids":["$id:a","$id:b","$id:c"],"msg":"published"}
        > DELETE /api/$ns/$q/job/$a
        < 204
        > DELETE /api/$ns/$q/job/$b
        < 204
        > GET /api/$ns/$q/peek
        ! a deleted job is not shown, but the one behind it
        < 200 {"attributes":null,"data":"Mw==","elapsed_ms":$int,"job_id":"$c","namespace":"$ns","queue":"$q","remain_tries":1,"ttl":$ttl:86400}
        > DELETE /api/$ns/$q/job/$c
        < 204
        > GET /api/$ns/$q/peek
        ! a deleted job is not shown
        < 404 {"error":"the queue is empty"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn an_expired_head_is_skipped() {
    play(
        r#"
        > PUT /api/$ns/$q?ttl=1
        < 201 {"job_id":"$id:a","msg":"published"}
        > PUT /api/$ns/$q
        < 201 {"job_id":"$id:b","msg":"published"}
        > GET /api/$ns/$q/peek
        ! an expired job is not shown, but the one behind it
        ~ 5s
        < 200 {"attributes":null,"data":"","elapsed_ms":$int:1000-5000,"job_id":"$b","namespace":"$ns","queue":"$q","remain_tries":1,"ttl":$int}
        > GET /api/$ns/$q/job/$a
        ~ 5s
        < 404 {"error":"job not found"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn delayed_and_leased_jobs_are_not_at_the_head() {
    play(
        r#"
        > PUT /api/$ns/$q?delay=600
        < 201 {"job_id":"$id:a","msg":"published"}
        > PUT /api/$ns/$q
        < 201 {"job_id":"$id:b","msg":"published"}
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$b","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        > GET /api/$ns/$q/peek
        < 404 {"error":"the queue is empty"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_job_is_shown_in_every_state_without_its_tries() {
    play(
        r#"
        # delayed
        > PUT /api/$ns/$q?delay=600&tries=7&ttl=700
        | a
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q/job/$a
        < 200 {"attributes":null,"data":"YQ==","elapsed_ms":$int,"job_id":"$a","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:700}
        # ready
        > PUT /api/$ns/$q?ttl=0
        | b
        < 201 {"job_id":"$id:b","msg":"published"}
        > GET /api/$ns/$q/job/$b
        < 200 {"attributes":null,"data":"Yg==","elapsed_ms":$int,"job_id":"$b","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":0}
        # leased
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"Yg==","elapsed_ms":$int,"job_id":"$b","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":0}
        > GET /api/$ns/$q/job/$b
        < 200 {"attributes":null,"data":"Yg==","elapsed_ms":$int,"job_id":"$b","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":0}
        # dead: the time to live no longer counts
        > PUT /api/$ns/$q?ttl=50
        | c
        < 201 {"job_id":"$id:c","msg":"published"}
        > GET /api/$ns/$q?ttr=0
        < 200 {"attributes":null,"data":"Yw==","elapsed_ms":$int,"job_id":"$c","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:50}
        > GET /api/$ns/$q/job/$c
        ~ 3s
        < 200 {"attributes":null,"data":"Yw==","elapsed_ms":$int,"job_id":"$c","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":0}
        # deleted
        > DELETE /api/$ns/$q/job/$a
        < 204
        > GET /api/$ns/$q/job/$a
        < 404 {"error":"job not found"}
        "#,
    )
    .await;
}

/// Places in an id: in its bucket, its number and its nonce.
const BUCKET_NUMBER_NONCE: [usize; 3] = [12, 20, 25];
/// Places in the time of an id.
const TIME: [usize; 2] = [0, 9];

async fn not_found_with_digit_changed(session: &mut Session, id: &str, places: &[usize]) {
    for at in places {
        let mut other = id.to_owned().into_bytes();
        other[*at] = if other[*at] == b'0' { b'1' } else { b'0' };
        session.set("other", &String::from_utf8(other).unwrap());
        session
            .play("> GET /api/$ns/$q/job/$other\n< 404 {\"error\":\"job not found\"}")
            .await;
    }
}

/// A job has exactly one valid id.
#[tokio::test]
async fn an_id_with_another_time_is_not_found() {
    let mut session = session().await;
    let id = session.queue("q1").publish("x").id().await;
    not_found_with_digit_changed(&mut session, &id, &TIME).await;
}

#[tokio::test]
async fn ids_of_other_jobs_and_invalid_ids_are_not_found() {
    let mut session = session().await;
    session
        .play(
            r#"
            > PUT /api/$ns/$q
            < 201 {"job_id":"$id:a","msg":"published"}
            > GET /api/$ns/other/job/$a
            < 404 {"error":"job not found"}
            "#,
        )
        .await;
    let id = session.value("a").to_owned();
    not_found_with_digit_changed(&mut session, &id, &BUCKET_NUMBER_NONCE).await;
    let texts = [
        "x".to_owned(),
        id.to_lowercase(),
        format!("{id}0"),
        format!("2{id}"),
        id[1..].to_owned(),
        "%00".to_owned(),
        "%F0%9F%8C%8A".to_owned(),
        "x".repeat(5000),
    ];
    for text in texts {
        session.set("other", &text);
        session
            .play("> GET /api/$ns/$q/job/$other\n< 404 {\"error\":\"job not found\"}")
            .await;
    }
}
