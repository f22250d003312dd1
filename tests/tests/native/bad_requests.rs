//! Requests that are wrong: each has a documented answer, and changes nothing.

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, RawHttp, Stack};

#[tokio::test]
async fn a_wrong_publish_names_its_mistake() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let long = "k".repeat(256);
    for (query, code, field) in [
        ("dealy=5m", "invalid_parameter", "dealy"),
        ("delay=-1s", "invalid_parameter", "delay"),
        // Seconds or milliseconds?
        ("delay=30", "invalid_parameter", "delay"),
        ("delay=0", "invalid_parameter", "delay"),
        ("delay=1e99", "invalid_parameter", "delay"),
        ("delay=5%20minutes", "invalid_parameter", "delay"),
        ("delay=1s&delay=2s", "invalid_parameter", "delay"),
        (
            "delay=1s&run_at=2026-11-21T12:30:00Z",
            "delay_and_run_at",
            "",
        ),
        ("run_at=2026-11-21T12:30:00", "invalid_parameter", "run_at"),
        (
            "run_at=10000-01-01T00:00:00Z",
            "run_at_out_of_range",
            "run_at",
        ),
        // Later than the last due time that a record can have.
        (
            "run_at=3000-01-01T00:00:00Z",
            "run_at_out_of_range",
            "run_at",
        ),
        ("delay=17592186044417ms", "run_at_out_of_range", "delay"),
        (
            "start_within=17592186044417ms",
            "invalid_parameter",
            "start_within",
        ),
        ("if_exists=replace", "invalid_parameter", "if_exists"),
        (
            "key=a&if_exists=sometimes",
            "invalid_parameter",
            "if_exists",
        ),
        (&format!("key={long}"), "invalid_parameter", "key"),
        ("key=%00", "invalid_parameter", "key"),
        ("key=%FF", "invalid_parameter", ""),
        ("key=%GG", "invalid_parameter", ""),
        ("lease=1ms", "invalid_parameter", "lease"),
        ("max_attempts=0", "invalid_parameter", "max_attempts"),
        ("durability=paper", "invalid_parameter", "durability"),
    ] {
        let refused = client.publish("q", query, "x").await.expect(400).json();
        assert_eq!(refused["code"], code, "{query}: {refused}");
        assert_eq!(refused["applied"], "no", "{query}");
        if !field.is_empty() {
            assert_eq!(refused["field"], field, "{query}: {refused}");
        }
    }
    let json = [("Content-Type", "application/json")];
    let refused = client.send("POST", "/queues/q/jobs", &json, b"{").await;
    assert_eq!(refused.expect(415).json()["code"], "payload_not_json");
    let held = client.get("/queues/q").await.expect(200).json();
    assert_eq!(held["jobs"]["ready"], 0);
    stack.finish().await;
}

/// The content type is named only if the body is no JSON: with another mistake, it would hide that.
#[tokio::test]
async fn json_that_is_sent_as_a_form_is_read() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    for (body, status, code) in [
        (r#"{"queues":["q"]}"#, 200, None),
        (r#"{"queues":["q","q"]}"#, 400, Some("invalid_parameter")),
        (r#"{"queue":"q"}"#, 400, Some("invalid_body")),
        ("[]", 400, Some("invalid_body")),
        ("queues=q", 415, Some("unsupported_content_type")),
    ] {
        let answer = client.send("POST", "/reserve", &form, body.as_bytes());
        let answer = answer.await.expect(status).json();
        assert_eq!(answer["code"].as_str(), code, "{body}: {answer}");
    }
    stack.finish().await;
}

/// A worker could not read what is stored: payloads are delivered as they were published.
#[tokio::test]
async fn a_compressed_body_is_refused() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let gzip = [("Content-Encoding", "gzip")];
    for (method, path) in [
        ("POST", "/queues/q/jobs"),
        ("POST", "/queues/q/jobs/batch"),
        ("POST", "/reserve"),
        ("POST", "/ack"),
        ("PATCH", "/queues/q/policy"),
        ("PUT", "/schedules/s"),
    ] {
        let refused = client.send(method, path, &gzip, b"\x1f\x8b").await;
        let refused = refused.expect(415).json();
        assert_eq!(refused["code"], "unsupported_content_encoding", "{path}");
        assert_eq!(refused["field"], "content-encoding", "{path}");
    }
    let same = ["identity", "", "Identity, identity"];
    for encoding in same {
        let header = [("Content-Encoding", encoding)];
        let stored = client.send("POST", "/queues/q/jobs", &header, b"x").await;
        stored.expect(201);
    }
    let mut raw = RawHttp::connect(stack.api(0).listen()).await;
    let key = client.key();
    let request = format!(
        "POST /v1/shop/queues/q/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\
         Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n\x1f_\r\n0\r\n\r\n"
    );
    raw.send(request).await;
    let refused = raw.answer().await.unwrap().expect(501).json();
    assert_eq!(refused["code"], "unsupported_transfer_encoding");
    let held = client.get("/queues/q").await.expect(200).json();
    assert_eq!(held["jobs"]["ready"], same.len());
    stack.finish().await;
}

/// Seconds or milliseconds? A server that guesses delivers a thousand times too early or too late.
#[tokio::test]
async fn a_duration_without_a_unit_is_refused_with_the_remedy() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let job = json!({"payload": 1, "delay": 30});
    let schedule = json!({"queue": "q", "every": 30, "job": {"payload": 1}});
    for (method, path, body) in [
        ("POST", "/reserve", json!({"queues": ["q"], "wait": 30})),
        ("POST", "/reserve", json!({"queues": ["q"], "lease": "30"})),
        ("POST", "/queues/q/jobs/batch", json!({"jobs": [job]})),
        (
            "PATCH",
            "/queues/q/policy",
            json!({"retry": {"delays": [30, 60]}}),
        ),
        ("PATCH", "/queues/q/policy", json!({"lease": 30})),
        ("PUT", "/schedules/s", schedule),
        ("POST", "/touch", json!({"leases": ["a.1.q"], "lease": 30})),
    ] {
        let refused = client.call(method, path, &body).await.expect(400).json();
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("write 30s or 30ms"), "{body}: {detail}");
    }
    for delay in ["1.5s", "PT1.5S", "0.025m", "1500ms"] {
        let query = format!("delay={delay}");
        let published = client.publish("q", &query, "x").await.expect(201).json();
        assert_eq!(published["state"], "delayed", "{delay}");
    }
    stack.finish().await;
}

/// `curl -d` declares a form.
#[tokio::test]
async fn a_payload_that_is_json_is_json_unless_its_client_chose_a_content_type() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let form = "application/x-www-form-urlencoded";
    for (declared, body, stored) in [
        (None, r#"{"order":17}"#, "application/json"),
        (Some(form), r#"{"order":17}"#, "application/json"),
        (None, "order=17", "application/octet-stream"),
        (Some(form), "order=17", form),
        (Some("text/plain"), r#"{"order":17}"#, "text/plain"),
        (
            Some("application/octet-stream"),
            "17",
            "application/octet-stream",
        ),
        (None, "", "application/octet-stream"),
    ] {
        let headers: Vec<_> = declared
            .map(|it| ("Content-Type", it))
            .into_iter()
            .collect();
        let published = client.send("POST", "/queues/q/jobs", &headers, body.as_bytes());
        published.await.expect(201);
        let job = client.reserve("q", 1).await.remove(0);
        assert_eq!(job["content_type"], stored, "{declared:?} {body}");
        let is_json = stored == "application/json";
        assert_eq!(job["payload"] == json!({"order": 17}), is_json, "{job}");
    }
    stack.finish().await;
}

#[tokio::test]
async fn a_wrong_name_or_id_says_what_is_wrong() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    for (path, expected) in [
        ("/queues/q/jobs/order-17", "did you mean key:order-17?"),
        (
            "/queues/q/jobs/order-17/result",
            "did you mean key:order-17?",
        ),
        ("/queues/my.queue", "'.' (U+002E) is not allowed"),
        ("/queues/q%C3%BC", "'ü' (U+00FC) is not allowed"),
        ("/schedules/a%20b", "' ' (U+0020) is not allowed"),
        ("/queues/q/jobs/key:a%0Ab", "'\\n' (U+000A) is not allowed"),
    ] {
        let refused = client.get(path).await.expect(400).json();
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(expected), "{path}: {detail}");
    }
    stack.finish().await;
}

/// A key may have any character that is no control character; anything else is refused, and stores nothing.
#[tokio::test]
async fn a_key_has_every_byte_that_utf_8_text_can_have() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let mut stored = 0;
    for byte in 0..=255_u8 {
        let published = client.publish("q", &format!("key=%{byte:02X}"), "x").await;
        let is_text = byte.is_ascii() && !byte.is_ascii_control();
        stored += u32::from(is_text);
        let status = if is_text { 201 } else { 400 };
        let answer = published.expect(status).json();
        if is_text {
            assert_eq!(answer["key"], char::from(byte).to_string());
            let found = format!("/queues/q/jobs/-?key=%{byte:02X}");
            let found = client.get(&found).await.expect(200).json();
            assert_eq!(found["id"], answer["id"]);
        }
    }
    let held = client.get("/queues/q").await.expect(200).json();
    assert_eq!(held["jobs"]["ready"], stored);
    stack.finish().await;
}

/// A request, and the status and code of its problem.
type Refused = (&'static str, &'static str, Value, u16, &'static str);

async fn expect_refusals(client: &NativeClient, requests: impl IntoIterator<Item = Refused>) {
    for (method, path, body, status, code) in requests {
        let refused = client.call(method, path, &body).await.expect(status);
        assert_eq!(
            refused.header("content-type"),
            Some("application/problem+json")
        );
        let refused = refused.json();
        assert_eq!(refused["code"], code, "{method} {path}: {refused}");
        assert_eq!(refused["status"], status);
    }
}

#[tokio::test]
async fn wrong_bodies_have_their_codes() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let many: Vec<Value> = (0..1001).map(|n| json!({"payload": n})).collect();
    let requests = [
        ("POST", "/reserve", json!({}), 400, "invalid_body"),
        (
            "POST",
            "/reserve",
            json!({"queues": []}),
            400,
            "invalid_parameter",
        ),
        (
            "POST",
            "/reserve",
            json!({"queues": ["a b"]}),
            400,
            "invalid_name",
        ),
        (
            "POST",
            "/reserve",
            json!({"queues": ["a"], "wiat": 1}),
            400,
            "invalid_body",
        ),
        (
            "POST",
            "/queues/q/jobs/batch",
            json!({"jobs": many}),
            400,
            "invalid_parameter",
        ),
        (
            "POST",
            "/queues/q/jobs/batch",
            json!({"jobs": [{}]}),
            400,
            "invalid_parameter",
        ),
        (
            "PATCH",
            "/queues/q/jobs/key:a",
            json!({}),
            400,
            "invalid_body",
        ),
        (
            "PATCH",
            "/queues/q/jobs/key:a",
            json!({"delay": "1ms"}),
            404,
            "job_not_found",
        ),
    ];
    expect_refusals(&client, requests).await;
    stack.finish().await;
}

#[tokio::test]
async fn an_attribute_that_is_there_twice_is_refused() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let json = [("Content-Type", "application/json")];
    let body = br#"{"jobs":[{"payload":1,"attributes":{"tenant":"a","tenant":"b"}}]}"#;
    let refused = client
        .send("POST", "/queues/q/jobs/batch", &json, body)
        .await;
    let refused = refused.expect(400).json();
    assert_eq!(refused["code"], "invalid_body", "{refused}");
    assert_eq!(refused["field"], "jobs[0].attributes", "{refused}");
    let detail = refused["detail"].as_str().unwrap();
    assert!(
        detail.contains("duplicate attribute \"tenant\""),
        "{detail}"
    );
    stack.finish().await;
}

#[tokio::test]
async fn wrong_bodies_of_workers_have_their_codes() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let requests = [
        ("POST", "/ack", json!({"leases": "x"}), 400, "invalid_body"),
        (
            "POST",
            "/fail",
            json!({"leases": [{"lease": "x", "error": "e", "dead": true, "retry_in": "1ms"}]}),
            400,
            "invalid_parameter",
        ),
        (
            "POST",
            "/fail",
            json!({"leases": [{"lease": "x", "error": "e", "retry_in": "17592186044417ms"}]}),
            400,
            "invalid_parameter",
        ),
        (
            "POST",
            "/release",
            json!({"leases": ["x"], "delay": "17592186044417ms"}),
            400,
            "invalid_parameter",
        ),
    ];
    expect_refusals(&client, requests).await;
    // Longer than leases and error texts can be. Only a batch, and an ack with results, may be longer.
    let long = format!("{{\"leases\":[{}\"x\"]}}", " ".repeat(4 * 1024 * 1024));
    let json = [("Content-Type", "application/json")];
    let refused = client.send("POST", "/touch", &json, long.as_bytes()).await;
    assert_eq!(refused.expect(413).json()["code"], "body_too_large");
    stack.finish().await;
}

/// The id of a job, or a part of a lease, must not look like a job that is done.
#[tokio::test]
async fn a_text_that_is_no_lease_is_refused_and_changes_nothing() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    client.publish("q", "", "x").await.expect(201);
    let job = client.reserve("q", 1).await.remove(0);
    let (id, lease) = (job["id"].as_str().unwrap(), job["lease"].as_str().unwrap());
    for wrong in [id, "junk", &lease[1..], &lease[..28]] {
        for (verb, item, field) in [
            ("ack", json!(wrong), "leases[1]"),
            (
                "ack",
                json!({"lease": wrong, "result": 1}),
                "leases[1].lease",
            ),
            (
                "fail",
                json!({"lease": wrong, "error": "e"}),
                "leases[1].lease",
            ),
            ("touch", json!(wrong), "leases[1]"),
            ("release", json!(wrong), "leases[1]"),
        ] {
            let first = match verb {
                "fail" => json!({"lease": lease, "error": "e"}),
                _ => json!(lease),
            };
            let body = json!({"leases": [first, item]});
            let refused = client.call("POST", &format!("/{verb}"), &body).await;
            let refused = refused.expect(400).json();
            assert_eq!(refused["code"], "invalid_parameter", "{refused}");
            assert_eq!(refused["field"], field, "{verb} {wrong}");
            let detail = "this is no lease; send `lease` of the reserve answer";
            assert_eq!(refused["detail"], detail);
        }
    }
    let acked = client.settle("ack", &json!({"leases": [lease]})).await;
    assert_eq!(acked, [json!({"outcome": "done"})]);
    stack.finish().await;
}

/// An array with the values of an object in their order is no object, and other JSON is not malformed.
#[tokio::test]
async fn values_of_other_types_are_rejected_by_name() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let object = "expected a JSON object";
    for (path, body, detail) in [
        ("/queues/q/purge", json!(["ready"]), object),
        ("/queues/q/jobs/batch", json!({"jobs": [[1]]}), object),
        ("/fail", json!({"leases": [["a", "b"]]}), object),
        ("/keys", json!([["read"], "x"]), object),
        (
            "/queues/q/purge",
            json!({"state": null}),
            "expected a string",
        ),
        ("/queues/q/purge", json!({"state": 7}), "expected a string"),
    ] {
        let refused = client.call("POST", path, &body).await.expect(400).json();
        assert_eq!(refused["code"], "invalid_body", "{path} {body}");
        let found = refused["detail"].as_str().unwrap();
        assert!(found.contains(detail), "{path} {body}: {found}");
    }
    stack.finish().await;
}

#[tokio::test]
async fn options_in_headers_are_rejected_where_they_have_no_effect() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    client.publish("q", "key=a", "x").await.expect(201);
    for (method, path, body) in [
        (
            "POST",
            "/queues/q/jobs/batch",
            r#"{"jobs":[{"payload":1}]}"#,
        ),
        ("POST", "/reserve", r#"{"queues":["q"]}"#),
        ("DELETE", "/queues/q/jobs/key:a", ""),
        ("GET", "/queues/q", ""),
    ] {
        for header in ["Idempotency-Key", "Tidegate-Delay", "Job-Attr-A"] {
            let headers = [(header, "1")];
            let refused = client.send(method, path, &headers, body.as_bytes()).await;
            let refused = refused.expect(400).json();
            let found = (&refused["code"], &refused["field"]);
            let field = json!(header.to_lowercase());
            assert_eq!(found, (&json!("invalid_parameter"), &field), "{path}");
        }
    }
    let held = client.get("/queues/q").await.expect(200).json();
    assert_eq!(held["jobs"]["ready"], 1);
    stack.finish().await;
}

#[tokio::test]
async fn wrong_paths_and_methods_have_their_codes() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let requests = [
        (
            "GET",
            "/queues/q/jobs/nonsense",
            json!(null),
            400,
            "invalid_parameter",
        ),
        (
            "GET",
            "/queues/q/jobs/01KAJ0000000000000000000AB",
            json!(null),
            404,
            "job_not_found",
        ),
        ("GET", "/queues/a%20b", json!(null), 400, "invalid_name"),
        (
            "PUT",
            "/queues/q/jobs",
            json!(null),
            405,
            "method_not_allowed",
        ),
        ("GET", "/nothing/here", json!(null), 404, "route_not_found"),
    ];
    expect_refusals(&client, requests).await;
    for (method, path, status) in [("POST", "/nothing/here", 404), ("PUT", "/ack", 405)] {
        let refused = client.call(method, path, &json!({})).await;
        assert_eq!(refused.expect(status).json()["applied"], "no", "{path}");
    }
    let allowed = client.call("PUT", "/ack", &json!({})).await.expect(405);
    assert_eq!(allowed.header("allow"), Some("POST"));
    let id = allowed.header("x-request-id").unwrap().to_owned();
    assert_eq!(allowed.json()["instance"], id);
    stack.finish().await;
}

/// Their payloads are in the same answer as those of other jobs, which a client with such a parser would lose, too.
#[tokio::test]
async fn json_that_some_parsers_refuse_is_no_payload() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "ns").await;
    let deep = ["[".repeat(200_000), "]".repeat(200_000)].concat();
    let deep_in_batch = ["[".repeat(100), "]".repeat(100)].concat();
    let long = "1".repeat(5000);
    for (payload, in_batch) in [
        (&*deep, &*deep_in_batch),
        (r#""\ud800""#, r#""\ud800""#),
        ("1e400", "[1e400]"),
        (&*long, &*long),
    ] {
        let json = [("Content-Type", "application/json")];
        let refused = client
            .send("POST", "/queues/q/jobs", &json, payload.as_bytes())
            .await;
        let refused = refused.expect(415).json();
        assert_eq!(refused["code"], "payload_not_json", "{refused}");
        let batch = format!(r#"{{"jobs":[{{"payload":1}},{{"payload":{in_batch}}}]}}"#);
        let refused = client
            .send("POST", "/queues/q/jobs/batch", &json, batch.as_bytes())
            .await;
        let refused = refused.expect(415).json();
        assert_eq!(refused["field"], "jobs[1].payload", "{refused}");
    }
    let reserved = client
        .call("POST", "/reserve", &json!({"queues": ["q"]}))
        .await;
    assert_eq!(reserved.expect(200).json()["jobs"], json!([]));
    stack.finish().await;
}
