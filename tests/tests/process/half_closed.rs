//! Clients that close their sending half after their request.

use std::time::{Duration, Instant};

use tidegate_testkit::{Answer, Daemon, DaemonProgram, RawHttp};

use crate::fixture::{DaemonFixture, ask};

/// Sends a request and closes the sending half.
async fn last(api: &Daemon, method: &str, path: &str, body: &[u8]) -> Option<Answer> {
    let mut http = RawHttp::connect(api.listen()).await;
    http.request(method, path, &[], body).await;
    http.close_sending_half().await;
    http.answer().await
}

#[tokio::test]
async fn a_half_closed_client_gets_its_answer() {
    let fixture = DaemonFixture::new().await;
    let api = fixture.start(DaemonProgram::Api, &["-sv"]).await;
    // Each of these requests needs replies of Redis.
    for _ in 0..20 {
        let stored = last(&api, "PUT", "/api/ns/q", b"x").await.unwrap();
        assert_eq!(stored.status, 201);
        let shown = last(&api, "GET", "/api/ns/q/peek", b"").await.unwrap();
        assert_eq!(shown.status, 200);
        // It would wait if there were no job.
        let job = last(&api, "GET", "/api/ns/q?timeout=30", b"")
            .await
            .unwrap();
        let id = job.expect(200).json()["job_id"]
            .as_str()
            .unwrap()
            .to_owned();
        let path = format!("/api/ns/q/job/{id}");
        let acked = last(&api, "DELETE", &path, b"").await.unwrap();
        assert_eq!(acked.status, 204);
    }
}

#[tokio::test]
async fn a_half_closed_client_with_a_slow_body_gets_its_answer() {
    let fixture = DaemonFixture::new().await;
    let api = fixture.start(DaemonProgram::Api, &["-sv"]).await;
    for _ in 0..5 {
        let mut http = RawHttp::connect(api.listen()).await;
        http.send("PUT /api/ns/q HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n")
            .await;
        for byte in ["a", "b", "c"] {
            tokio::time::sleep(Duration::from_millis(150)).await;
            http.send(byte).await;
        }
        http.close_sending_half().await;
        http.answer().await.unwrap().expect(201);
    }
}

/// The client may have left, so no job is reserved for it.
#[tokio::test]
async fn a_waiting_consume_ends_when_its_client_half_closes() {
    let fixture = DaemonFixture::new().await;
    let api = fixture.start(DaemonProgram::Api, &["-sv"]).await;
    let begin = Instant::now();
    let answer = last(&api, "GET", "/api/ns/q?timeout=60", b"").await;
    assert!(answer.is_none());
    // Other requests of half-closed clients are held for up to 3 s.
    assert!(begin.elapsed() < Duration::from_secs(2));
    let mut parked = RawHttp::connect(api.listen()).await;
    parked
        .request("GET", "/api/ns/q?timeout=60", &[], b"")
        .await;
    api.wait_for_waiting_consumers(1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    parked.close_sending_half().await;
    assert!(parked.answer().await.is_none());
    ask(api.listen(), "PUT", "/api/ns/q", &[]).await.expect(201);
    let job = ask(api.listen(), "GET", "/api/ns/q", &[]).await;
    assert_eq!(job.expect(200).json()["remain_tries"], 0);
}
