//! Reads and sets the rate limits of tokens.
//!
//! * `GET /limits`: all limits.
//! * `GET`, `POST`, `PUT` and `DELETE /token/NAMESPACE/TOKEN/limit`. `TOKEN` may be `POOL:TOKEN`, and need not exist
//!   yet. `POST` creates a limit, `PUT` creates or replaces it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use serde::Serialize;
use tidegate_core::Namespace;
use tidegate_engine::split_token;
use tidegate_store::{LimitCreated, LimitHolder, RateLimit};

use super::error::AdminError;
use super::limiter::LimitBody;
use super::tokens::with_pool;
use crate::app::App;
use crate::http::json;

const BODY_BYTES_MAX: usize = 64 * 1024;

#[derive(Serialize)]
struct LimitRow {
    namespace: String,
    token: String,
    limiter: LimitBody,
}

/// `GET /limits`. lmstfy's parameter `force_update` has no effect, as each request reads the limits from Redis.
pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Response<Body>, AdminError> {
    let rows = app.engine.limits.list().await?;
    let listed = rows.into_iter().map(|(holder, limit)| {
        let (pool, namespace, token) = holder.parts();
        LimitRow {
            namespace: namespace.to_owned(),
            token: with_pool(pool, token),
            limiter: limit.into(),
        }
    });
    let listed: Vec<LimitRow> = listed.collect();
    Ok(json::answer(StatusCode::OK, &listed))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
) -> Result<Response<Body>, AdminError> {
    let holder = holder(&app, &namespace, &token)?;
    let limiter = app.engine.limits.get(&holder).await?.map(LimitBody::from);
    let status = match limiter {
        Some(_) => StatusCode::OK,
        None => StatusCode::NOT_FOUND,
    };
    Ok(json::answer(status, &limiter))
}

#[derive(Serialize)]
struct LimitResponse {
    limiter: LimitBody,
}

pub(super) async fn create(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
    body: Body,
) -> Result<Response<Body>, AdminError> {
    let limit = read_limit(&app, body).await?;
    let holder = holder(&app, &namespace, &token)?;
    match app.engine.limits.create(&holder, limit).await? {
        LimitCreated::AlreadyExists => Err(AdminError::LimitExists {
            token: holder.parts().2.to_owned(),
        }),
        LimitCreated::Done => {
            let limiter = limit.into();
            Ok(json::answer(
                StatusCode::CREATED,
                &LimitResponse { limiter },
            ))
        }
    }
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
    body: Body,
) -> Result<Response<Body>, AdminError> {
    let limit = read_limit(&app, body).await?;
    let holder = holder(&app, &namespace, &token)?;
    app.engine.limits.set(&holder, limit).await?;
    let limiter = limit.into();
    Ok(json::answer(StatusCode::OK, &LimitResponse { limiter }))
}

#[derive(Serialize)]
struct MessageBody {
    msg: &'static str,
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((namespace, token)): Path<(String, String)>,
) -> Result<Response<Body>, AdminError> {
    let holder = holder(&app, &namespace, &token)?;
    app.engine.limits.delete(&holder).await?;
    Ok(json::answer(
        StatusCode::OK,
        &MessageBody { msg: "success" },
    ))
}

/// The holder of the limit that a path names.
fn holder(app: &App, namespace: &str, token: &str) -> Result<LimitHolder, AdminError> {
    let (pool, token) = split_token(token);
    let pool = app.pool(pool).ok_or(AdminError::PoolNotFound)?;
    let namespace = Namespace::try_from(namespace)?;
    let tokens = &app.engine.tokens;
    Ok(tokens.named_holder(&pool.name, &namespace, token))
}

async fn read_limit(app: &App, body: Body) -> Result<RateLimit, AdminError> {
    let body = app.job_body.up_to(BODY_BYTES_MAX).read(body).await;
    let body = body.map_err(|_| AdminError::BodyUnreadable)?;
    parse_limit(&body.bytes)
}

fn parse_limit(body: &[u8]) -> Result<RateLimit, AdminError> {
    let limiter: LimitBody = json::parse_object(body).map_err(|_| AdminError::NotALimit)?;
    check_limit(limiter)
}

/// Checks the values. The order of the checks decides which error is answered.
fn check_limit(limiter: LimitBody) -> Result<RateLimit, AdminError> {
    if limiter.read == 0 && limiter.write == 0 {
        return Err(AdminError::LimitsNothing(limiter));
    }
    if limiter.interval == 0 {
        return Err(AdminError::IntervalZero);
    }
    if limiter.interval < 0 {
        return Err(AdminError::IntervalNegative);
    }
    if limiter.read <= 0 && limiter.write <= 0 {
        return Err(AdminError::LimitsNegative);
    }
    let interval_seconds =
        u32::try_from(limiter.interval).map_err(|_| AdminError::IntervalTooLong)?;
    Ok(RateLimit {
        read: limiter.read,
        write: limiter.write,
        interval_seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(body: &str, outcome: Result<(i64, i64, u32), AdminError>) {
        let outcome = outcome.map(|(read, write, interval_seconds)| RateLimit {
            read,
            write,
            interval_seconds,
        });
        assert_eq!(parse_limit(body.as_bytes()), outcome, "{body}");
    }

    #[test]
    fn a_limit_needs_an_interval_and_a_positive_side() {
        expect(r#"{"read":1,"write":2,"interval":3}"#, Ok((1, 2, 3)));
        expect(r#"{"read":1,"interval":3,"more":[]}"#, Ok((1, 0, 3)));
        expect(r#"{"read":-1,"write":2,"interval":3}"#, Ok((-1, 2, 3)));
        expect(r#"{"read":-1}"#, Err(AdminError::IntervalZero));
        let nothing = |interval| {
            let (read, write) = (0, 0);
            AdminError::LimitsNothing(LimitBody {
                read,
                write,
                interval,
            })
        };
        expect("{}", Err(nothing(0)));
        expect(r#"{"interval":-1}"#, Err(nothing(-1)));
        expect(r#"{"read":1}"#, Err(AdminError::IntervalZero));
        let negative = r#"{"read":1,"interval":-1}"#;
        expect(negative, Err(AdminError::IntervalNegative));
        let alone = r#"{"read":-1,"interval":1}"#;
        expect(alone, Err(AdminError::LimitsNegative));
        let long = r#"{"read":1,"interval":4294967296}"#;
        expect(long, Err(AdminError::IntervalTooLong));
    }

    #[test]
    fn a_body_that_is_no_object_of_integers_is_rejected() {
        for body in [
            "",
            "x",
            "null",
            "[1,2,3]",
            r#"{"read":"1"}"#,
            r#"{"read":1.5}"#,
        ] {
            expect(body, Err(AdminError::NotALimit));
        }
    }
}
