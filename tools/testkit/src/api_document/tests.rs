use super::*;

const QUEUE: &str = "/v1/shop/queues/emails";
const ID: &str = "01KAJ3S1V9GJY9W6ZP2C7R4T8B";

fn answer(status: u16, kind: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let all = [("x-request-id", ID), ("content-type", kind)];
    let all = all.iter().chain(headers);
    Answer {
        status,
        headers: all
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        body: body.to_string().into_bytes(),
    }
}

fn json_answer(status: u16, body: &Value) -> Answer {
    answer(status, "application/json", &[], body)
}

fn problem(status: u16, code: &str) -> Value {
    json!({
        "type": format!("urn:tidegate:problem:{code}"), "title": "A title", "status": status, "code": code,
        "detail": "a sentence", "instance": ID, "applied": "no",
    })
}

fn problem_answer(status: u16, body: &Value, headers: &[(&str, &str)]) -> Answer {
    answer(status, PROBLEM, headers, body)
}

fn view() -> Value {
    let jobs = json!({"delayed": 0, "ready": 0, "leased": 0, "dead": 0, "done": 0});
    json!({"queue": "emails", "jobs": jobs, "paused": false, "closed": false})
}

fn check(method: &str, path: &str, answer: &Answer) -> Result<(), String> {
    API.check(method, path, answer)
}

fn rejected(method: &str, path: &str, answer: &Answer, reason: &str) {
    let error = check(method, path, answer).unwrap_err();
    assert!(error.contains(reason), "{reason:?}: {error}");
}

#[test]
fn documented_answers_are_allowed() {
    assert_eq!(check("GET", QUEUE, &json_answer(200, &view())), Ok(()));
    let missing = problem_answer(404, &problem(404, "job_not_found"), &[]);
    let job = format!("{QUEUE}/jobs/key:a?key=b");
    assert_eq!(check("GET", &job, &missing), Ok(()));
    let unauthenticated = problem_answer(
        401,
        &problem(401, "key_missing"),
        &[("www-authenticate", "Bearer")],
    );
    assert_eq!(check("GET", QUEUE, &unauthenticated), Ok(()));
    let batch = json!({"results": [{"problem": problem(409, "key_taken")}]});
    let path = format!("{QUEUE}/jobs/batch");
    assert_eq!(check("POST", &path, &json_answer(200, &batch)), Ok(()));
}

#[test]
fn undocumented_statuses_content_types_and_headers_are_rejected() {
    rejected("GET", QUEUE, &json_answer(202, &view()), "status");
    let text = answer(200, "text/plain", &[], &view());
    rejected("GET", QUEUE, &text, "content type");
    let mut nameless = json_answer(200, &view());
    nameless.headers.remove(0);
    rejected("GET", QUEUE, &nameless, "x-request-id is missing");
    let full = problem(429, "queue_full");
    let jobs = format!("{QUEUE}/jobs");
    rejected(
        "POST",
        &jobs,
        &problem_answer(429, &full, &[]),
        "retry-after",
    );
    let soon = problem_answer(429, &full, &[("retry-after", "soon")]);
    rejected("POST", &jobs, &soon, "retry-after");
    let later = problem_answer(429, &full, &[("retry-after", "1")]);
    assert_eq!(check("POST", &jobs, &later), Ok(()));
    // An atomic batch has no result with this status.
    let created = json_answer(201, &json!({"results": []}));
    rejected("GET", &format!("{QUEUE}/jobs/batch"), &created, "Allow");
    rejected("POST", "/v1/shop/ack", &created, "status");
}

#[test]
fn unknown_and_missing_fields_are_rejected_at_any_depth() {
    let mut more = view();
    more["added"] = json!(1);
    rejected("GET", QUEUE, &json_answer(200, &more), "added");
    let mut deeper = view();
    deeper["jobs"]["added"] = json!(1);
    rejected("GET", QUEUE, &json_answer(200, &deeper), "added");
    let mut less = view();
    less["jobs"].as_object_mut().unwrap().remove("dead");
    rejected("GET", QUEUE, &json_answer(200, &less), "dead");
    let outcome =
        json!({"results": [{"outcome": "lost", "lease_until": "2026-11-21T12:30:00.000Z"}]});
    rejected(
        "POST",
        "/v1/shop/touch",
        &json_answer(200, &outcome),
        "results",
    );
    let mut problem = problem(404, "job_not_found");
    problem["added"] = json!(1);
    rejected(
        "GET",
        &format!("{QUEUE}/jobs/{ID}"),
        &problem_answer(404, &problem, &[]),
        "added",
    );
}

#[test]
fn problems_have_a_code_of_the_operation_and_agree_with_the_answer() {
    let job = format!("{QUEUE}/jobs/{ID}");
    let other = problem_answer(404, &problem(404, "key_not_found"), &[]);
    rejected("GET", &job, &other, "code");
    let another_status = problem_answer(404, &problem(409, "job_not_found"), &[]);
    rejected("GET", &job, &another_status, "status in the body");
    let mut strange = problem(404, "job_not_found");
    strange["instance"] = json!("another request");
    rejected("GET", &job, &problem_answer(404, &strange, &[]), "instance");
    let mut strange = problem(404, "job_not_found");
    strange["type"] = json!("about:blank");
    rejected("GET", &job, &problem_answer(404, &strange, &[]), "type");
}

#[test]
fn paths_and_methods_that_do_not_exist_have_their_problems() {
    let nowhere = problem_answer(404, &problem(404, "route_not_found"), &[]);
    assert_eq!(check("GET", "/v1/shop/nothing/here", &nowhere), Ok(()));
    rejected(
        "GET",
        "/v1/shop/nothing/here",
        &json_answer(200, &view()),
        "problem",
    );
    let not_allowed = problem(405, "method_not_allowed");
    let job = format!("{QUEUE}/jobs/{ID}");
    let allow = [("allow", "GET, PATCH, DELETE")];
    let refused = problem_answer(405, &not_allowed, &allow);
    assert_eq!(check("PUT", &job, &refused), Ok(()));
    let refused = problem_answer(405, &not_allowed, &[("allow", "GET")]);
    rejected("PUT", &job, &refused, "Allow");
}

#[test]
fn a_payload_may_be_anything_and_an_answer_without_a_body_nothing() {
    let sandbox = [
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox"),
    ];
    let payload = answer(200, "application/json", &sandbox, &json!({"any": 1}));
    assert_eq!(
        check("GET", &format!("{QUEUE}/jobs/{ID}/payload"), &payload),
        Ok(())
    );
    let raw = answer(
        200,
        "application/json",
        &[("tidegate-job-id", ID)],
        &json!([1]),
    );
    assert_eq!(check("POST", "/v1/shop/reserve/raw", &raw), Ok(()));
    rejected(
        "POST",
        "/v1/shop/reserve",
        &json_answer(200, &json!([1])),
        "object",
    );
    rejected(
        "POST",
        "/v1/shop/reserve/raw",
        &json_answer(204, &json!(1)),
        "no body",
    );
}

/// The document is for people, too: its examples are valid.
#[test]
fn examples_of_the_document_are_valid() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let mut reader = DocumentReader::new(document.clone());
    let mut checked = 0;
    let mut pending = vec![(String::new(), &document)];
    while let Some((pointer, value)) = pending.pop() {
        if let (Some(example), Some(_)) = (value.get("example"), value.get("schema")) {
            let schema = reader.compile(&format!("{pointer}/schema"));
            let validated = reader.schemas.validate(example, schema);
            validated.unwrap_or_else(|error| panic!("{pointer}: {error:#}"));
            checked += 1;
        }
        match value {
            Value::Object(fields) => pending.extend(
                fields
                    .iter()
                    .map(|(name, value)| (format!("{pointer}/{}", escaped(name)), value)),
            ),
            Value::Array(items) => pending.extend(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, value)| (format!("{pointer}/{index}"), value)),
            ),
            _ => {}
        }
    }
    assert!(checked > 50, "{checked}");
}
