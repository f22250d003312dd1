//! Whether the API key is valid, and its rights. No request changes anything: each is invalid in a way that the server
//! reports only after it has checked the scope.

use bytes::Bytes;
use hyper::Method;
use hyper::header::{AUTHORIZATION, HeaderValue};
use tidegate::Scope;
use tidegate::{Problem, ProblemCode};

use super::reach::{ReachedKind, ReachedServer};
use super::report::DoctorReport;
use crate::arguments::connection::ConnectionArguments;
use crate::probe::ProbeRequest;

const CHECK: &str = "key";

/// A request that is invalid, and needs a scope.
struct ScopeProbe {
    scope: Scope,
    method: Method,
    path: &'static str,
    body: &'static str,
}

fn probes() -> [ScopeProbe; 4] {
    let probe = |scope, method, path, body| ScopeProbe {
        scope,
        method,
        path,
        body,
    };
    [
        probe(
            Scope::Publish,
            Method::POST,
            "/queues/doctor/jobs?delay=invalid",
            "{}",
        ),
        probe(Scope::Consume, Method::POST, "/ack", "invalid"),
        probe(Scope::Read, Method::GET, "/queues?limit=0", ""),
        probe(Scope::Admin, Method::GET, "/keys?limit=0", ""),
    ]
}

/// Why the scopes of a key are unknown.
enum KeyFailure {
    /// The answer is none of the native API.
    NotTheApi(u16),
    NoAnswer(String),
    Refused(Box<Problem>),
}

/// Checks the key. `needed` are scopes whose absence is a problem.
pub(super) async fn check_key(
    report: &mut DoctorReport,
    server: &ReachedServer,
    connection: &ConnectionArguments,
    needed: &[Scope],
) {
    let key = connection.api_key.trim();
    if key.is_empty() {
        let remedy = "set TG_KEY; a key is created on the admin port, or with `tidegate key new`";
        return report.problem(CHECK, "no API key is given", remedy);
    }
    let Ok(mut authorization) = HeaderValue::from_str(&format!("Bearer {key}")) else {
        let remedy = "set TG_KEY to the secret as it was printed when the key was created";
        return report.problem(
            CHECK,
            "the API key has characters that no API key has",
            remedy,
        );
    };
    authorization.set_sensitive(true);
    // It would answer as to a key with all scopes.
    if server.kind().await == ReachedKind::AdminPort {
        report.problem(
            "port",
            format!(
                "{} is an admin port, which checks accounts and no API keys",
                server.url
            ),
            "use the port of `listen` in TG_URL, 7777 by default, and this URL with --admin",
        );
        return report.skipped(CHECK, "no port for clients was found");
    }
    let mut scopes = Vec::new();
    for probe in probes() {
        match has_scope(server, &connection.namespace, &authorization, &probe).await {
            Ok(true) => scopes.push(probe.scope),
            Ok(false) => {}
            Err(failure) => return report_failure(report, server, connection, failure).await,
        }
    }
    let namespace = &connection.namespace;
    let missing: Vec<Scope> = needed
        .iter()
        .copied()
        .filter(|scope| !scopes.contains(scope))
        .collect();
    let has = match scopes.is_empty() {
        true => "no scope".to_owned(),
        false => names(&scopes),
    };
    let detail = format!("the API key is valid for the namespace {namespace}, with {has}");
    match missing.is_empty() {
        true => report.ok(CHECK, detail),
        false => report.problem(
            CHECK,
            format!("{detail}; it lacks {}", names(&missing)),
            "create another one: tidegate key new DESCRIPTION --scope SCOPE",
        ),
    }
}

/// As in JSON, with commas between them.
fn names(scopes: &[Scope]) -> String {
    let names = scopes.iter().filter_map(|scope| {
        let name = serde_json::to_value(scope).ok()?;
        name.as_str().map(str::to_owned)
    });
    names.collect::<Vec<_>>().join(", ")
}

async fn has_scope(
    server: &ReachedServer,
    namespace: &str,
    authorization: &HeaderValue,
    probe: &ScopeProbe,
) -> Result<bool, KeyFailure> {
    let url = format!("{}/v1/{namespace}{}", server.url, probe.path);
    let request = ProbeRequest {
        method: probe.method.clone(),
        headers: vec![(AUTHORIZATION, authorization.clone())],
        body: Bytes::from_static(probe.body.as_bytes()),
    };
    let answer = server.probe.send(&url, request).await;
    let answer = answer.map_err(KeyFailure::NoAnswer)?;
    let problem: Problem = answer.json().ok_or(KeyFailure::NotTheApi(answer.status))?;
    match (problem.code, problem.status) {
        (ProblemCode::ScopeMissing, _) => Ok(false),
        // A rate limit is checked after the scope.
        (_, 400 | 429) if problem.code != ProblemCode::InvalidName => Ok(true),
        _ => Err(KeyFailure::Refused(Box::new(problem))),
    }
}

async fn report_failure(
    report: &mut DoctorReport,
    server: &ReachedServer,
    connection: &ConnectionArguments,
    failure: KeyFailure,
) {
    match failure {
        KeyFailure::NoAnswer(error) => {
            report.problem(
                CHECK,
                error,
                "check the log of the server, and of proxies before it",
            );
        }
        KeyFailure::NotTheApi(status) => {
            let url = &server.url;
            let (detail, remedy) = match server.kind().await {
                ReachedKind::PumpOrRelay => (
                    format!("{url} is the port of a pump or a relay, not the port of /v1"),
                    "use the port of `listen` of tidegate-api in TG_URL, 7777 by default",
                ),
                ReachedKind::AdminPort | ReachedKind::Unknown => (
                    format!("{url} answers /v1 with {status}, and not as Tidegate does"),
                    "check the URL, and whether a proxy passes /v1 on",
                ),
            };
            report.problem("port", detail, remedy);
            report.skipped(CHECK, "no port of /v1 was found");
        }
        KeyFailure::Refused(problem) => {
            let namespace = &connection.namespace;
            let remedy = match (problem.code, problem.status) {
                (ProblemCode::NamespaceForbidden, _) => {
                    format!(
                        "set TG_NAMESPACE to the namespace of the key; {namespace} is another one"
                    )
                }
                (ProblemCode::InvalidName, _) => {
                    "set TG_NAMESPACE to the name of a namespace".to_owned()
                }
                (_, 401) => {
                    "check TG_KEY: the key may be revoked, expired, or of another deployment"
                        .to_owned()
                }
                (_, 500..) => {
                    "the server cannot check the key now: see /readyz, and its log".to_owned()
                }
                _ => "see the detail".to_owned(),
            };
            report.problem(
                CHECK,
                format!("{}: {}", problem.title, problem.detail),
                remedy,
            );
        }
    }
}
