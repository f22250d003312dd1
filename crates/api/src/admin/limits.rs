//! How often tokens may consume and publish.
//!
//! * `GET /limits`: all limits, as they are stored.
//! * `GET`, `POST`, `PUT` and `DELETE /token/NAMESPACE/TOKEN/limit`, where the token may have its pool in
//!   front and need not exist yet. `POST` makes a limit, `PUT` makes or replaces one.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use tidegate_core::{InvalidName, Namespace};
use tidegate_store::{LimitCreated, LimitHolder, RateLimit, StoreError};

use super::tokens::TokenRefusal;
use crate::app::App;
use crate::body::Reading;
use crate::config::DEFAULT_POOL;
use crate::lmstfy::json;

const BODY_BYTES_MAX: usize = 64 * 1024;

/// A limit on the wire. What is left out is 0. Its fields are not in alphabetical order: the wire has
/// them like this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Limiter {
    read: i64,
    write: i64,
    interval: i64,
}

impl From<RateLimit> for Limiter {
    fn from(limit: RateLimit) -> Self {
        Self {
            read: limit.read,
            write: limit.write,
            interval: limit.interval_seconds.into(),
        }
    }
}

/// Why a request about limits is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LimitRefusal {
    NotALimit,
    LimitsNothing(Limiter),
    IntervalZero,
    IntervalNegative,
    IntervalTooLong,
    NegativeAlone,
    Exists(String),
    Token(TokenRefusal),
}

#[derive(Serialize)]
struct ErrorText<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    limiter: Option<Limiter>,
}

impl IntoResponse for LimitRefusal {
    fn into_response(self) -> Response<Body> {
        const NOTHING: &str = "the read and write of limiter can't be <= 0 at the same time";
        let bad = |error| (StatusCode::BAD_REQUEST, error, None);
        let exists;
        let (status, error, limiter) = match self {
            Self::NotALimit => {
                bad("the body should be an object with whole numbers read, write and interval")
            }
            Self::LimitsNothing(limiter) => (StatusCode::BAD_REQUEST, NOTHING, Some(limiter)),
            Self::IntervalZero => bad("interval should be > 0"),
            Self::IntervalNegative => bad("limiter interval should be > 0"),
            Self::IntervalTooLong => bad("limiter interval should be <= 4294967295"),
            Self::NegativeAlone => bad(NOTHING),
            Self::Exists(token) => {
                exists = format!("throttler token({token}) has already exists");
                (StatusCode::INTERNAL_SERVER_ERROR, exists.as_str(), None)
            }
            Self::Token(refusal) => return refusal.into_response(),
        };
        json::answer(status, &ErrorText { error, limiter })
    }
}

impl From<TokenRefusal> for LimitRefusal {
    fn from(refusal: TokenRefusal) -> Self {
        Self::Token(refusal)
    }
}

impl From<StoreError> for LimitRefusal {
    fn from(error: StoreError) -> Self {
        Self::Token(error.into())
    }
}

impl Limiter {
    fn read(body: &[u8]) -> Result<RateLimit, LimitRefusal> {
        // Only an object: the derived reading would take a list of three numbers as well.
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(body).map_err(|_| LimitRefusal::NotALimit)?;
        let limiter: Self =
            serde_json::from_value(object.into()).map_err(|_| LimitRefusal::NotALimit)?;
        limiter.check()
    }

    /// The first thing that is wrong decides.
    fn check(self) -> Result<RateLimit, LimitRefusal> {
        if self.read == 0 && self.write == 0 {
            return Err(LimitRefusal::LimitsNothing(self));
        }
        if self.interval == 0 {
            return Err(LimitRefusal::IntervalZero);
        }
        if self.interval < 0 {
            return Err(LimitRefusal::IntervalNegative);
        }
        if self.read <= 0 && self.write <= 0 {
            return Err(LimitRefusal::NegativeAlone);
        }
        let interval_seconds =
            u32::try_from(self.interval).map_err(|_| LimitRefusal::IntervalTooLong)?;
        Ok(RateLimit {
            read: self.read,
            write: self.write,
            interval_seconds,
        })
    }
}

#[derive(Serialize)]
struct Listed {
    namespace: String,
    token: String,
    limiter: Limiter,
}

/// `GET /limits`. The table is read anew each time, so `force_update` has nothing to do.
pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response<Body>, LimitRefusal> {
    let rows = app.limits.list().await?;
    let listed = rows.into_iter().map(|(holder, limit)| {
        let (pool, namespace, token) = holder.parts();
        let token = match pool {
            DEFAULT_POOL => token.to_owned(),
            pool => format!("{pool}:{token}"),
        };
        Listed {
            namespace: namespace.to_owned(),
            token,
            limiter: limit.into(),
        }
    });
    let listed: Vec<Listed> = listed.collect();
    Ok(json::answer(StatusCode::OK, &listed))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
) -> Result<Response<Body>, LimitRefusal> {
    let holder = holder(&app, &namespace, &token)?;
    let limiter = app.limits.get(&holder).await?.map(Limiter::from);
    let status = match limiter {
        Some(_) => StatusCode::OK,
        None => StatusCode::NOT_FOUND,
    };
    Ok(json::answer(status, &limiter))
}

#[derive(Serialize)]
struct Set {
    limiter: Limiter,
}

pub(super) async fn create(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
    body: Body,
) -> Result<Response<Body>, LimitRefusal> {
    let limit = read_limit(&app, body).await?;
    let holder = holder(&app, &namespace, &token)?;
    match app.limits.create(&holder, limit).await? {
        LimitCreated::AlreadyExists => Err(LimitRefusal::Exists(holder.parts().2.to_owned())),
        LimitCreated::Done => {
            let limiter = limit.into();
            Ok(json::answer(StatusCode::CREATED, &Set { limiter }))
        }
    }
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
    body: Body,
) -> Result<Response<Body>, LimitRefusal> {
    let limit = read_limit(&app, body).await?;
    let holder = holder(&app, &namespace, &token)?;
    app.limits.set(&holder, limit).await?;
    let limiter = limit.into();
    Ok(json::answer(StatusCode::OK, &Set { limiter }))
}

#[derive(Serialize)]
struct Message {
    msg: &'static str,
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
) -> Result<Response<Body>, LimitRefusal> {
    let holder = holder(&app, &namespace, &token)?;
    app.limits.delete(&holder).await?;
    Ok(json::answer(StatusCode::OK, &Message { msg: "success" }))
}

/// Whose limit a path is about.
fn holder(app: &App, namespace: &str, token: &str) -> Result<LimitHolder, LimitRefusal> {
    let (pool, token) = token.split_once(':').unwrap_or(("", token));
    let pool = app.pool(pool).ok_or(TokenRefusal::NoSuchPool)?;
    let namespace = Namespace::try_from(namespace).map_err(|error| match error {
        InvalidName::TooLong => TokenRefusal::NamespaceTooLong,
        InvalidName::ForbiddenCharacters => TokenRefusal::NamespaceForbidden,
    })?;
    Ok(app.tokens.named_holder(&pool.name, &namespace, token))
}

async fn read_limit(app: &App, body: Body) -> Result<RateLimit, LimitRefusal> {
    let reading = Reading {
        bytes_max: BODY_BYTES_MAX,
        ..app.job_body.clone()
    };
    let body = reading.read(body).await.map_err(|_| TokenRefusal::Body)?;
    Limiter::read(&body.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(body: &str, outcome: Result<(i64, i64, u32), LimitRefusal>) {
        let outcome = outcome.map(|(read, write, interval_seconds)| RateLimit {
            read,
            write,
            interval_seconds,
        });
        assert_eq!(Limiter::read(body.as_bytes()), outcome, "{body}");
    }

    #[test]
    fn a_limit_limits_something_for_some_time() {
        expect(r#"{"read":1,"write":2,"interval":3}"#, Ok((1, 2, 3)));
        expect(r#"{"read":1,"interval":3,"more":[]}"#, Ok((1, 0, 3)));
        expect(r#"{"read":-1,"write":2,"interval":3}"#, Ok((-1, 2, 3)));
        expect(r#"{"read":-1}"#, Err(LimitRefusal::IntervalZero));
        let nothing = |interval| {
            let (read, write) = (0, 0);
            LimitRefusal::LimitsNothing(Limiter {
                read,
                write,
                interval,
            })
        };
        expect("{}", Err(nothing(0)));
        expect(r#"{"interval":-1}"#, Err(nothing(-1)));
        expect(r#"{"read":1}"#, Err(LimitRefusal::IntervalZero));
        let negative = r#"{"read":1,"interval":-1}"#;
        expect(negative, Err(LimitRefusal::IntervalNegative));
        let alone = r#"{"read":-1,"interval":1}"#;
        expect(alone, Err(LimitRefusal::NegativeAlone));
        let long = r#"{"read":1,"interval":4294967296}"#;
        expect(long, Err(LimitRefusal::IntervalTooLong));
    }

    #[test]
    fn what_is_no_object_of_whole_numbers_is_no_limit() {
        for body in [
            "",
            "x",
            "null",
            "[1,2,3]",
            r#"{"read":"1"}"#,
            r#"{"read":1.5}"#,
        ] {
            expect(body, Err(LimitRefusal::NotALimit));
        }
    }
}
