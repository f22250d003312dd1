//! Plays transcripts, each in a separate namespace.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Instant;

use tidegate_testkit::{Answer, QueueClient, RawHttp};

use crate::target::{ConformanceTarget, better_at};
use crate::template::{Values, compare, fill, is_ulid};
use crate::transcript::{Row, parse};

const JSON: &str = "application/json; charset=utf-8";

/// A conversation with the server in a fresh namespace: `$ns`, `$q` and `$token` are set.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) target: ConformanceTarget,
    values: Values,
    public: Option<RawHttp>,
    admin: Option<RawHttp>,
    request_ids: HashSet<String>,
}

/// A session in a namespace with a random name.
pub(crate) async fn session() -> Session {
    session_in(&format!("ns-{:016x}", rand::random::<u64>())).await
}

/// A session with a server that no other test uses, unless a server is given.
pub(crate) async fn session_alone() -> Session {
    let namespace = format!("ns-{:016x}", rand::random::<u64>());
    session_with(ConformanceTarget::alone().await, &namespace).await
}

/// A session in the namespace of this name.
pub(crate) async fn session_in(namespace: &str) -> Session {
    session_with(ConformanceTarget::get().await, namespace).await
}

async fn session_with(target: ConformanceTarget, namespace: &str) -> Session {
    let mut session = Session {
        target,
        values: Values::new(),
        public: None,
        admin: None,
        request_ids: HashSet::new(),
    };
    session.set("ns", namespace);
    session.set("q", "q1");
    let created = session
        .exchange(&parse("> @admin POST /token/$ns?description=test")[0])
        .await
        .expect(201);
    session.set("token", created.json()["token"].as_str().unwrap());
    session
}

/// Plays a transcript in a new session.
pub(crate) async fn play(transcript: &str) {
    let mut session = session().await;
    session.play(transcript).await;
    session.target.check().await;
}

impl Session {
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn value(&self, name: &str) -> &str {
        &self.values[name]
    }

    /// A client of a queue of the session's namespace.
    pub(crate) fn queue(&self, name: &str) -> QueueClient {
        let base = format!("http://{}", self.target.public);
        QueueClient::new(&base, self.value("ns"), name, self.value("token"))
    }

    /// Sends each row's request and compares its answer.
    pub(crate) async fn play(&mut self, transcript: &str) {
        for row in parse(transcript) {
            self.play_row(&row).await;
        }
    }

    async fn play_row(&mut self, row: &Row) {
        if let Some(why) = &row.better
            && !better_at(&format!("{} {}", row.method, row.target), why)
        {
            return;
        }
        let deadline = Instant::now() + row.repeat_within;
        loop {
            let answer = self.exchange(row).await;
            let Err(problem) = self.judge(row, &answer) else {
                return;
            };
            if Instant::now() >= deadline {
                let target = fill(&row.target, &self.values);
                let shown: String = target.chars().take(300).collect();
                panic!(
                    "{} {shown}\n  expected: {} {}\n  got:      {answer}\n  headers:  {:?}\n  problem:  {problem}",
                    row.method, row.status, row.expected, answer.headers
                );
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    async fn exchange(&mut self, row: &Row) -> Answer {
        let target = fill(&row.target, &self.values);
        let body = row.body.as_ref().map(|body| fill(body, &self.values));
        let mut headers: Vec<(String, String)> = Vec::new();
        for (name, value) in &row.headers {
            headers.push((name.clone(), fill(value, &self.values)));
        }
        if !row.without_token && !has(&headers, "x-token") {
            headers.push(("X-Token".to_owned(), self.value("token").to_owned()));
        }
        let body = body.unwrap_or_default().into_bytes();
        let connection = self.connection(row.is_admin).await;
        connection
            .request(&row.method, &target, &headers, &body)
            .await;
        let answer = if row.method == "HEAD" {
            let head = connection.head().await.unwrap();
            Answer {
                status: head.status,
                headers: head.headers,
                body: Vec::new(),
            }
        } else {
            let answer = connection.answer().await;
            answer.unwrap_or_else(|| panic!("no answer to {} {target}", row.method))
        };
        let closes = answer.header("connection") == Some("close");
        if closes {
            self.forget_connection(row.is_admin);
        }
        answer
    }

    async fn connection(&mut self, is_admin: bool) -> &mut RawHttp {
        let (place, address): (_, SocketAddr) = if is_admin {
            (&mut self.admin, self.target.admin)
        } else {
            (&mut self.public, self.target.public)
        };
        if place.is_none() {
            *place = Some(RawHttp::connect(address).await);
        }
        place.as_mut().unwrap()
    }

    fn forget_connection(&mut self, is_admin: bool) {
        if is_admin {
            self.admin = None;
        } else {
            self.public = None;
        }
    }

    fn judge(&mut self, row: &Row, answer: &Answer) -> Result<(), String> {
        if answer.status != row.status {
            return Err(format!("status is {}", answer.status));
        }
        for (name, value) in &row.expected_headers {
            let value = fill(value, &self.values);
            let found = answer.header(&name.to_lowercase());
            if found != Some(value.as_str()) {
                return Err(format!("{name} is {found:?}"));
            }
        }
        let is_redirect = (300..400).contains(&answer.status);
        if is_redirect {
            return Ok(());
        }
        self.judge_request_id(answer)?;
        judge_form(row, answer)?;
        if row.method == "HEAD" {
            return Ok(());
        }
        let expected = row.expected.replace("\\n", "\n");
        compare(&expected, &answer.text(), &mut self.values)
    }

    fn judge_request_id(&mut self, answer: &Answer) -> Result<(), String> {
        let id = answer
            .header("x-request-id")
            .ok_or("there is no X-Request-Id")?;
        if !is_ulid(id) {
            return Err(format!("X-Request-Id is {id:?}"));
        }
        if !self.request_ids.insert(id.to_owned()) {
            return Err(format!("X-Request-Id {id} was given before"));
        }
        Ok(())
    }
}

/// Checks what all answers have in common: JSON with its content type, or no body.
fn judge_form(row: &Row, answer: &Answer) -> Result<(), String> {
    let content_type = answer.header("content-type");
    let length = answer.header("content-length");
    if answer.status == 204 {
        return match (content_type, length, answer.body.is_empty()) {
            (None, None, true) => Ok(()),
            other => Err(format!("204 with type, length or body: {other:?}")),
        };
    }
    let names_type = row
        .expected_headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !names_type && content_type != Some(JSON) {
        return Err(format!("Content-Type is {content_type:?}"));
    }
    Ok(())
}

fn has(headers: &[(String, String)], name: &str) -> bool {
    headers
        .iter()
        .any(|(found, _)| found.eq_ignore_ascii_case(name))
}
