//! The OpenAPI document and the page that shows it.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;
use tidegate_testkit::{Answer, Daemon, RawHttp, Stack};

const COMMITTED: &str = include_str!("../../../docs/openapi.json");

/// A request without a credential.
async fn request(api: &Daemon, method: &str, path: &str) -> Answer {
    let mut http = RawHttp::connect(api.listen()).await;
    http.request(method, path, &[], b"").await;
    http.answer().await.expect("an answer")
}

/// The body of an answer as text, decompressed.
fn text_of(answer: &Answer) -> String {
    let Some("gzip") = answer.header("content-encoding") else {
        return answer.text();
    };
    let mut text = String::new();
    GzDecoder::new(answer.body.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    text
}

#[tokio::test]
async fn the_document_is_served_as_it_is_committed_to_anyone() {
    let stack = Stack::builder().pumps(0).start().await;
    let served = request(stack.api(0), "GET", "/openapi.json")
        .await
        .expect(200);
    assert_eq!(served.header("content-type"), Some("application/json"));
    let committed: Value = serde_json::from_str(COMMITTED).unwrap();
    assert_eq!(served.json(), committed);
    // Only reads are answered; all else is a path that the lmstfy wire does not have.
    for (method, path) in [
        ("PUT", "/openapi.json"),
        ("POST", "/docs"),
        ("GET", "/openapi"),
    ] {
        request(stack.api(0), method, path).await.expect(404);
    }
    stack.finish().await;
}

#[tokio::test]
async fn the_page_has_all_its_files_and_asks_no_other_server() {
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let moved = request(api, "GET", "/docs").await.expect(308);
    assert_eq!(moved.header("location"), Some("docs/"));
    let page = request(api, "GET", "/docs/").await.expect(200);
    assert_eq!(page.header("content-type"), Some("text/html"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self';"),
        "{policy}"
    );
    assert!(!policy.contains("http"), "{policy}");
    let html = text_of(&page);
    let mut files: Vec<&str> = html.split("src=\"").skip(1).collect();
    files.extend(html.split("href=\"").skip(1));
    assert!(files.len() >= 5, "{html}");
    for file in files {
        let name = file.split('"').next().unwrap();
        let path = format!("/docs/{}", name.trim_start_matches("./"));
        let served = request(api, "GET", &path).await.expect(200);
        assert!(!served.body.is_empty(), "{path}");
        assert_eq!(served.header("content-security-policy"), Some(policy));
        assert_eq!(served.header("x-content-type-options"), Some("nosniff"));
    }
    let script = request(api, "GET", "/docs/swagger-initializer.js").await;
    let script = text_of(&script.expect(200));
    assert!(script.contains("\"../openapi.json\""), "{script}");
    assert!(script.contains(r#""validatorUrl": "none""#), "{script}");
    for path in ["/docs/nothing.js", "/docs/../openapi.json", "/docs/x/y"] {
        request(api, "GET", path).await.expect(404);
    }
    let head = request(api, "GET", "/docs/swagger-ui.css").await;
    assert_eq!(head.header("content-type"), Some("text/css"));
    stack.finish().await;
}

/// The path of a route as docs/api.md writes it.
fn short_path(path: &str) -> String {
    let mut short = path.replace("/v1/{namespace}", "…");
    for name in ["queue", "job", "limit", "relay", "schedule", "key"] {
        short = short.replace(&format!("{{{name}}}"), &name.to_uppercase());
    }
    short
}

#[test]
fn the_guide_says_of_each_route_whether_it_may_be_repeated() {
    let guide = include_str!("../../../docs/api.md");
    let (_, section) = guide.split_once("### What may be repeated").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let document: Value = serde_json::from_str(COMMITTED).unwrap();
    let mut missing = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in ["post", "put", "patch", "delete"] {
            let route = format!("`{} {}`", method.to_uppercase(), short_path(path));
            if operations.get(method).is_some() && !section.contains(&route) {
                missing.push(route);
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
