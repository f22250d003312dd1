//! What `dev` creates for the first commands of a reader, and those commands.

use super::http;

pub(super) const NAMESPACE: &str = "demo";
/// Fixed, so that the commands in the README work unchanged. They are for one namespace of a server that listens on
/// loopback.
pub(super) const KEY: &str = "tg_DEMOKEY00000_FORDEVELOPMENTONLY00000000";
/// The same for the lmstfy wire.
const TOKEN: &str = "demo-token-for-development";

/// Creates the API key and the token of the demo namespace, unless an earlier run has done so.
pub(super) fn make_credentials(admin_port: u16) -> Result<(), String> {
    make_key(admin_port)?;
    make_token(admin_port)
}

fn make_key(admin_port: u16) -> Result<(), String> {
    let body = format!(
        r#"{{"secret":"{KEY}","namespace":"{NAMESPACE}","scopes":["publish","consume","read","admin"],"description":"cargo xtask dev"}}"#
    );
    match http::request("POST", admin_port, "/keys", &body)? {
        (201 | 409, _) => Ok(()),
        (status, answer) => Err(format!(
            "failed to create an API key: the API answered {status} {answer}"
        )),
    }
}

fn make_token(admin_port: u16) -> Result<(), String> {
    let path = format!("/token/{NAMESPACE}?description=cargo-xtask-dev&token={TOKEN}");
    match http::request("POST", admin_port, &path, "")? {
        (201, _) => Ok(()),
        (400, answer) if answer.contains("already existed") => Ok(()),
        (status, answer) => Err(format!(
            "failed to create a token: the API answered {status} {answer}"
        )),
    }
}

/// The commands of a first session, for a shell.
pub(super) fn session(port: u16) -> String {
    let publish = |payload: &str, options: &str| {
        format!(
            r#"curl -s -H "$AUTH" -H 'Content-Type: application/json' -d '{payload}' "$API/queues/close-unpaid/jobs?{options}"; echo"#
        )
    };
    let settle = |verb: &str, lease: &str| {
        format!(r#"curl -s -H "$AUTH" -d '{{"leases":[{lease}]}}' $API/{verb}; echo"#)
    };
    let reserve = r#"LEASE=$(curl -s -H "$AUTH" -d '{"queues":["close-unpaid"],"wait":"10s"}' $API/reserve | tee /dev/stderr | sed 's/.*"lease":"\([^"]*\)".*/\1/'); echo"#;
    let failed = r#"{"lease":"'$LEASE'","error":"the shop is closed","retry_in":"2s"}"#;
    let lines = [
        format!("export TIDEGATE_KEY={KEY}"),
        format!(
            r#"API=http://127.0.0.1:{port}/v1/{NAMESPACE} AUTH="Authorization: Bearer $TIDEGATE_KEY""#
        ),
        publish(r#"{"order":17}"#, "key=order-17&delay=30m"),
        publish(
            r#"{"order":17,"by":"Ann"}"#,
            "key=order-17&delay=3s&if_exists=replace",
        ),
        reserve.to_owned(),
        settle("fail", failed),
        reserve.to_owned(),
        settle("ack", r#""'$LEASE'""#),
    ];
    lines.map(|line| line + "\n").concat()
}

#[cfg(test)]
mod tests;
