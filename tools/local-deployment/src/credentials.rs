//! The credentials of the demo namespace.

use crate::http;

pub const NAMESPACE: &str = "demo";
/// Its API key. Fixed, so that the commands in the README work unchanged. They are for one namespace of a server that
/// listens on loopback.
pub const KEY: &str = "tg_DEMOKEY00000_FORDEVELOPMENTONLY00000000";
/// The same for the lmstfy wire.
const TOKEN: &str = "demo-token-for-development";

/// Creates the API key and the token of the demo namespace, unless an earlier run has done so.
///
/// # Errors
/// A message for the user.
pub fn make_credentials(admin_port: u16) -> Result<(), String> {
    make_key(admin_port)?;
    make_token(admin_port)
}

fn make_key(admin_port: u16) -> Result<(), String> {
    let body = format!(
        r#"{{"secret":"{KEY}","scopes":["publish","consume","read","admin"],"description":"development"}}"#
    );
    let path = format!("/v1/{NAMESPACE}/keys");
    match http::request("POST", admin_port, &path, &body)? {
        (201 | 409, _) => Ok(()),
        (status, answer) => Err(format!(
            "failed to create an API key: the API answered {status} {answer}"
        )),
    }
}

fn make_token(admin_port: u16) -> Result<(), String> {
    let path = format!("/token/{NAMESPACE}?description=development&token={TOKEN}");
    match http::request("POST", admin_port, &path, "")? {
        (201, _) => Ok(()),
        (400, answer) if answer.contains("already existed") => Ok(()),
        (status, answer) => Err(format!(
            "failed to create a token: the API answered {status} {answer}"
        )),
    }
}
