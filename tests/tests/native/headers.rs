//! Keys and attributes as headers: their encoding, and how long they may be.

use serde_json::{Value, json};
use tidegate_testkit::{NativeClient, Stack};

#[tokio::test]
async fn texts_that_are_not_ascii_are_percent_encoded_in_headers() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let headers = [
        ("Content-Type", "text/plain"),
        ("Job-Attr-City", "Zürich 1"),
        ("Job-Attr-Off", "100% \"x\""),
        ("Job-Attr-Plain", "a=b;c/d"),
    ];
    let path = "/queues/q/jobs?key=%E9%94%AE%20%25";
    let published = client.send("POST", path, &headers, b"x").await;
    published.expect(201);
    let raw = json!({"queues": ["q"]});
    let answer = client.call("POST", "/reserve/raw", &raw).await.expect(200);
    for (name, value) in [
        ("tidegate-key", "%E9%94%AE%20%25"),
        ("job-attr-city", "Z%C3%BCrich%201"),
        ("job-attr-off", "100%25%20%22x%22"),
        ("job-attr-plain", "a=b;c/d"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    let lease = answer.header("tidegate-lease").unwrap();
    let released = client.settle("release", &json!({"leases": [lease]})).await;
    assert_eq!(released, [json!({"outcome": "released"})]);
    let job = client.reserve("q", 1).await.remove(0);
    assert_eq!(
        (&job["key"], &job["attributes"]["city"]),
        (&json!("键 %"), &json!("Zürich 1"))
    );
    stack.finish().await;
}

/// Eight attributes of so many bytes each as headers.
fn attributes(line_bytes: usize) -> Value {
    let value_bytes = line_bytes - "job-attr-a1: \r\n".len();
    let attributes = (1..9).map(|number| (format!("a{number}"), "x".repeat(value_bytes).into()));
    Value::Object(attributes.collect())
}

#[tokio::test]
async fn all_attributes_together_fit_in_the_headers_of_common_servers() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let (fits, too_long) = (attributes(1024), attributes(1025));

    // A batch.
    let batch = |attributes: &Value| json!({"jobs": [{"payload": 1, "attributes": attributes}]});
    let path = "/queues/q/jobs/batch";
    client.call("POST", path, &batch(&fits)).await.expect(200);
    let refused = client.call("POST", path, &batch(&too_long)).await;
    let refused = refused.expect(400).json();
    assert_eq!(refused["field"], "jobs[0].attributes", "{refused}");
    assert!(
        refused["detail"]
            .as_str()
            .unwrap()
            .contains("8200 bytes as headers"),
        "{refused}"
    );

    // Headers of a publish.
    let as_headers = |attributes: &Value| -> Vec<(String, String)> {
        let attributes = attributes.as_object().unwrap().iter();
        attributes
            .map(|(name, value)| {
                let value = value.as_str().unwrap().to_owned();
                (format!("Job-Attr-{name}"), value)
            })
            .collect()
    };
    for (attributes, status) in [(&fits, 201), (&too_long, 400)] {
        let headers = as_headers(attributes);
        let headers = headers.iter().map(|(name, value)| (&**name, &**value));
        let headers: Vec<_> = headers.collect();
        client
            .send("POST", "/queues/q/jobs", &headers, b"x")
            .await
            .expect(status);
    }

    // A schedule, which adds two.
    let schedule = json!({"queue": "q", "every": "1h", "job": {"payload": 1, "attributes": fits}});
    let refused = client.call("PUT", "/schedules/s", &schedule).await;
    assert_eq!(refused.expect(400).json()["field"], "job.attributes");

    // What is stored can be delivered.
    let raw = json!({"queues": ["q"]});
    let answer = client.call("POST", "/reserve/raw", &raw).await.expect(200);
    assert_eq!(
        answer.header("job-attr-a8").map(str::len),
        fits["a8"].as_str().map(str::len)
    );
    stack.finish().await;
}
