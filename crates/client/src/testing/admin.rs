//! The admin port of the API.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use serde_json::json;

use crate::error::{Error, RepeatSafety};
use crate::repeat::RepeatLimits;
use crate::transport::{HttpCall, HttpTransport};

const TIME_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
struct CreatedSecret {
    secret: String,
}

/// Creates an API key with all scopes for a namespace.
pub(super) async fn create_key(admin: SocketAddr, namespace: &str) -> Result<String, Error> {
    let transport = HttpTransport::new(
        format!("http://{admin}"),
        None,
        RepeatLimits::default(),
        TIME_LIMIT,
    )?;
    let scopes = ["publish", "consume", "read", "admin"];
    let body = json!({"scopes": scopes, "description": "tests"});
    let path = format!("/v1/{namespace}/keys");
    let call = HttpCall::json(Method::POST, path, &body)?;
    let created: CreatedSecret = transport
        .send(&call, RepeatSafety::OnlyIfNotApplied)
        .await?
        .json()?;
    Ok(created.secret)
}
